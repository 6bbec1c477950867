{{- define "plaudit.labels" -}}
app.kubernetes.io/name: plaudit
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Pods of a release; of one component with (list $ "worker"). */}}
{{- define "plaudit.selector" -}}
app.kubernetes.io/name: plaudit
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- if gt (len .) 1 }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}
{{- end }}

{{- define "plaudit.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "plaudit.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- define "plaudit.secret" -}}
{{ .Values.secret.name | default .Release.Name }}
{{- end }}

{{/* A setting; "" if there is none. */}}
{{- define "plaudit.setting" -}}
{{- $value := index (index . 0).Values.config (index . 1) -}}
{{- if not (kindIs "invalid" $value) }}{{ $value }}{{ end }}
{{- end }}

{{/* The number of mailers. Without a sender, mails of stores without an address would become dead letters: better to hear so before anything is changed. */}}
{{- define "plaudit.mailers" -}}
{{- $host := include "plaudit.setting" (list . "PLAUDIT_SMTP__HOST") -}}
{{- $replicas := .Values.mailer.replicas -}}
{{- if kindIs "invalid" $replicas }}{{ $replicas = empty $host | ternary 0 2 }}{{ end -}}
{{- if int $replicas -}}
{{- range $name := list "PLAUDIT_SMTP__HOST" "PLAUDIT_SMTP__SENDER" -}}
{{- if not (include "plaudit.setting" (list $ $name)) -}}
{{- fail (printf "config.%s is missing: mailers need it; with mailer.replicas=0 mails wait" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ int $replicas }}
{{- end }}

{{/* All settings as an object: those of values.yaml, and the places of mounted certificates. */}}
{{- define "plaudit.settings" -}}
{{- range $name, $value := .Values.config }}
{{- if not (kindIs "invalid" $value) }}
{{- /* Helm reads whole numbers as floating ones, and would write a million as 1e+06. */}}
{{- $whole := and (kindIs "float64" $value) (eq (toString (floor $value)) (toString $value)) }}
{{ $name }}: {{ $whole | ternary (int64 $value) $value | toString | quote }}
{{- end }}
{{- end }}
{{- with .Values.tls.kafka }}
{{- if .secret }}
PLAUDIT_KAFKA__TLS_CA_FILE: /etc/plaudit/kafka/{{ .files.ca }}
{{- if .clientCertificate }}
PLAUDIT_KAFKA__TLS_CERT_FILE: /etc/plaudit/kafka/{{ .files.cert }}
PLAUDIT_KAFKA__TLS_KEY_FILE: /etc/plaudit/kafka/{{ .files.key }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.tls.smtp }}
{{- if .secret }}
PLAUDIT_SMTP__TLS_CA_FILE: /etc/plaudit/smtp/{{ .files.ca }}
{{- end }}
{{- end }}
{{- end }}
