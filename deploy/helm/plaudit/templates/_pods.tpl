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

{{/* The image of the processes; the one that `tag` or `digest` say of (list $ (dict "tag" "0.1.0")). */}}
{{- define "plaudit.ownImage" -}}
{{- $all := (index . 0).Values.image -}}
{{- $version := dict "tag" ($all.tag | default (index . 0).Chart.AppVersion) "digest" $all.digest -}}
{{- with index . 1 }}{{ if or .tag .digest }}{{ $version = . }}{{ end }}{{ end -}}
image: {{ include "plaudit.image" (merge (dict "repository" $all.repository) $version) | quote }}
imagePullPolicy: {{ $all.pullPolicy }}
{{- end }}
