{{- define "plaudit.podSecurity" -}}
automountServiceAccountToken: false
# Kubernetes would add variables like PLAUDIT_API_PORT.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "plaudit.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "plaudit.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- range $server := list "kafka" "mongodb" "smtp" }}
{{- with (index $.Values.tls $server).secret }}
- name: {{ $server }}-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "plaudit.volumeMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- range $server := list "kafka" "mongodb" "smtp" }}
{{- if (index $.Values.tls $server).secret }}
- {name: {{ $server }}-tls, mountPath: /etc/plaudit/{{ $server }}, readOnly: true}
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The image of the processes. */}}
{{- define "plaudit.ownImage" -}}
image: {{ include "plaudit.image" (merge (dict "tag" (.Values.image.tag | default .Chart.AppVersion)) .Values.image) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
