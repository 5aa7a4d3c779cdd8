{{/* Destinations of pods: items of a NetworkPolicy's egress. */}}

{{- define "minutehand.toNames" -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end -}}

{{- define "minutehand.toCassandra" -}}
- ports:
    - port: {{ int (.Values.config.cassandra.port | default 9042) }}
  {{- with .Values.networkPolicy.cassandraTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Brokers tell clients the addresses of others, whose ports are taken to be among those of the first. */}}
{{- define "minutehand.toKafka" -}}
- ports:
    {{- $ports := list }}
    {{- range .Values.config.ingest.brokers }}
    {{- $ports = append $ports (regexFind "[0-9]+$" .) }}
    {{- end }}
    {{- range uniq $ports }}
    - port: {{ . }}
    {{- end }}
  {{- with .Values.networkPolicy.kafkaTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "minutehand.toNodes" -}}
- ports:
    - port: {{ .Values.config.ops.port }}
  to:
    - podSelector:
        matchLabels:
          {{- include "minutehand.selector" (dict "root" . "component" "node") | nindent 10 }}
{{- end -}}

{{/* APIs and nodes export spans, mostly to a collector in the cluster, which receivers' rules leave out. */}}
{{- define "minutehand.toCollector" -}}
{{- with dig "trace" "endpoint" "" .Values.config }}
{{- $port := regexFind "^https?://[^/]*:[0-9]+" . | regexFind "[0-9]+$" }}
- ports:
    - port: {{ $port | default (hasPrefix "https" . | ternary "443" "80") }}
  {{- with $.Values.networkPolicy.collectorTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Nodes call receivers, and so does the API, for trial calls. Networks of config.network.allow get a
rule each, since `except` may cover them, and what any rule allows is allowed. */}}
{{- define "minutehand.toReceivers" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        {{- with .Values.networkPolicy.receiversExcept }}
        except:
          {{- toYaml . | nindent 10 }}
        {{- end }}
    - ipBlock:
        cidr: ::/0
        {{- with .Values.networkPolicy.receiversExceptIPv6 }}
        except:
          {{- toYaml . | nindent 10 }}
        {{- end }}
    {{- range dig "network" "allow" list .Values.config }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
{{- end -}}
