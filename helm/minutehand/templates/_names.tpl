{{/* Names, labels and selectors. */}}

{{- define "minutehand.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 43 characters, so that every name made from it is a DNS label, the longer suffixes of CronJobs included. */}}
{{- define "minutehand.fullname" -}}
{{- $name := include "minutehand.name" . -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $full | trunc 36 | trimSuffix "-" -}}
{{- end -}}

{{- define "minutehand.serviceAccount" -}}
{{- $made := include "minutehand.fullname" . -}}
{{- .Values.serviceAccount.name | default (ternary $made "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* Takes a dict of root and component. */}}
{{- define "minutehand.selector" -}}
app.kubernetes.io/name: {{ include "minutehand.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Takes a dict of root and component. */}}
{{- define "minutehand.labels" -}}
{{ include "minutehand.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: minutehand
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "minutehand.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.secrets.apiTls.name)) -}}
{{- end -}}

{{- define "minutehand.nodeScheme" -}}
{{- ternary "https" "http" (not (empty .Values.secrets.nodeTls.name)) -}}
{{- end -}}

{{/* Takes a dict of root and image. */}}
{{- define "minutehand.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What the series of a release have in the label `release`: its name alone may be used in several namespaces. */}}
{{- define "minutehand.releaseLabel" -}}
{{ .Release.Namespace }}/{{ .Release.Name }}
{{- end -}}

{{/* The rules. Where the chart makes the ServiceMonitors, which give series the label `release`, each selector asks for it and
each alert has it. */}}
{{- define "minutehand.rules" -}}
{{- $text := .Files.Get "files/rules/minutehand.yaml" -}}
{{- if .Values.monitoring.serviceMonitor.enabled -}}
{{- $release := include "minutehand.releaseLabel" . | quote -}}
{{- $text = regexReplaceAll "\\b(minutehand_[a-z0-9_]+)\\{" $text (printf "${1}{release=%s," $release) -}}
{{- $text = regexReplaceAll "\\b(minutehand_[a-z0-9_]+)([^a-z0-9_{])" $text (printf "${1}{release=%s}${2}" $release) -}}
{{- $text = regexReplaceAll "\\n( +)severity: " $text (printf "\n${1}release: %s\n${1}severity: " $release) -}}
{{- end -}}
{{- $text -}}
{{- end -}}
