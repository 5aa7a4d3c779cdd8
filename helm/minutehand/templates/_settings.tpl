{{/* Turns values into the programs' configuration: one TOML file, and variables that name mounted files. */}}

{{/* A JSON scalar or list of scalars is valid TOML, and whole numbers stay whole. Takes the tables to write. */}}
{{- define "minutehand.toml" -}}
{{- range $table, $settings := . }}
[{{ $table }}]
{{- range $key, $value := $settings }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{ end }}
{{- end -}}

{{/* What every pod reads. How the ingest logs in goes to its own pods only, as the files that belong to it do. */}}
{{- define "minutehand.sharedConfig" -}}
{{- toJson (merge (dict "ingest" (omit .Values.config.ingest "sasl_mechanism")) (omit .Values.config "ingest")) -}}
{{- end -}}

{{/* Which Secrets a component gets, and which entries of them, each at a path below /etc/minutehand. Takes a dict of root
and component; the result is a JSON list of dicts of volume, secret, and items (key, path). */}}
{{- define "minutehand.secretFiles" -}}
{{- $secrets := .root.Values.secrets -}}
{{- $files := list -}}
{{- $keys := list -}}
{{- if eq .component "api" -}}
{{- $keys = append $keys (dict "key" $secrets.keys.adminKey "path" "admin-key" "variable" "API_ADMIN_KEY_FILE") -}}
{{- with $secrets.keys.goschedulerKey -}}
{{- $keys = append $keys (dict "key" . "path" "goscheduler-key" "variable" "GOSCHEDULER_KEY_FILE") -}}
{{- end -}}
{{- with $secrets.keys.oidcClientSecret -}}
{{- $keys = append $keys (dict "key" . "path" "oidc-client-secret" "variable" "CONSOLE_OIDC_CLIENT_SECRET_FILE") -}}
{{- end -}}
{{- end -}}
{{- if has .component (list "api" "node") -}}
{{- $keys = append $keys (dict "key" $secrets.keys.clusterToken "path" "cluster-token" "variable" "CLUSTER_TOKEN_FILE") -}}
{{- $files = append $files (dict "volume" "keys" "secret" $secrets.keys.name "items" $keys) -}}
{{- end -}}
{{- with $secrets.cassandraLogin -}}
{{- if and .name (ne $.component "ingest") -}}
{{- $items := list (dict "key" .username "path" "username" "variable" "CASSANDRA_USERNAME_FILE") -}}
{{- $items = append $items (dict "key" .password "path" "password" "variable" "CASSANDRA_PASSWORD_FILE") -}}
{{- $files = append $files (dict "volume" "cassandra-login" "secret" .name "items" $items) -}}
{{- end -}}
{{- end -}}
{{- with $secrets.cassandraTls -}}
{{- if and .name (ne $.component "ingest") -}}
{{- $items := list (dict "key" .ca "path" "ca.crt" "variable" "CASSANDRA_TLS_CA_FILE") -}}
{{- if .cert -}}
{{- $items = append $items (dict "key" .cert "path" "tls.crt" "variable" "CASSANDRA_TLS_CERT_FILE") -}}
{{- $items = append $items (dict "key" .key "path" "tls.key" "variable" "CASSANDRA_TLS_KEY_FILE") -}}
{{- end -}}
{{- $files = append $files (dict "volume" "cassandra-tls" "secret" .name "items" $items) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .component "api") $secrets.apiTls.name -}}
{{- $items := list (dict "key" $secrets.apiTls.cert "path" "tls.crt" "variable" "API_TLS_CERT_FILE") -}}
{{- $items = append $items (dict "key" $secrets.apiTls.key "path" "tls.key" "variable" "API_TLS_KEY_FILE") -}}
{{- $files = append $files (dict "volume" "api-tls" "secret" $secrets.apiTls.name "items" $items) -}}
{{- end -}}
{{- if and (has .component (list "api" "node")) $secrets.nodeTls.name -}}
{{- $items := list (dict "key" $secrets.nodeTls.ca "path" "ca.crt" "variable" "CLUSTER_TLS_CA_FILE") -}}
{{- if eq .component "node" -}}
{{- $items = append $items (dict "key" $secrets.nodeTls.cert "path" "tls.crt" "variable" "OPS_TLS_CERT_FILE") -}}
{{- $items = append $items (dict "key" $secrets.nodeTls.key "path" "tls.key" "variable" "OPS_TLS_KEY_FILE") -}}
{{- end -}}
{{- $files = append $files (dict "volume" "node-tls" "secret" $secrets.nodeTls.name "items" $items) -}}
{{- end -}}
{{- if and (has .component (list "api" "node" "spark-application")) $secrets.keyRing.name -}}
{{- $items := list (dict "key" $secrets.keyRing.file "path" "key-ring" "variable" "SECRETS_KEY_RING_FILE") -}}
{{- $files = append $files (dict "volume" "key-ring" "secret" $secrets.keyRing.name "items" $items) -}}
{{- end -}}
{{- if and (has .component (list "api" "node")) $secrets.traceCollector.name -}}
{{- $items := list -}}
{{- with $secrets.traceCollector.authorization -}}
{{- $items = append $items (dict "key" . "path" "authorization" "variable" "TRACE_AUTHORIZATION_FILE") -}}
{{- end -}}
{{- with $secrets.traceCollector.ca -}}
{{- $items = append $items (dict "key" . "path" "ca.crt" "variable" "TRACE_CA_FILE") -}}
{{- end -}}
{{- $files = append $files (dict "volume" "trace-collector" "secret" $secrets.traceCollector.name "items" $items) -}}
{{- end -}}
{{- if eq .component "ingest" -}}
{{- with $secrets.ingestKey -}}
{{- $files = append $files (dict "volume" "ingest-key" "secret" .name "items" (list (dict "key" .key "path" "key" "variable" "INGEST_KEY_FILE"))) -}}
{{- end -}}
{{- with $secrets.kafkaLogin -}}
{{- if .name -}}
{{- $items := list (dict "key" .username "path" "username" "variable" "INGEST_USERNAME_FILE") -}}
{{- $items = append $items (dict "key" .password "path" "password" "variable" "INGEST_PASSWORD_FILE") -}}
{{- $files = append $files (dict "volume" "kafka-login" "secret" .name "items" $items) -}}
{{- end -}}
{{- end -}}
{{- with $secrets.kafkaTls -}}
{{- if .name -}}
{{- $items := list (dict "key" .ca "path" "ca.crt" "variable" "INGEST_TLS_CA_FILE") -}}
{{- if .cert -}}
{{- $items = append $items (dict "key" .cert "path" "tls.crt" "variable" "INGEST_TLS_CERT_FILE") -}}
{{- $items = append $items (dict "key" .key "path" "tls.key" "variable" "INGEST_TLS_KEY_FILE") -}}
{{- end -}}
{{- $files = append $files (dict "volume" "kafka-tls" "secret" .name "items" $items) -}}
{{- end -}}
{{- end -}}
{{- with $secrets.apiTls -}}
{{- if and .name .ca -}}
{{- $files = append $files (dict "volume" "api-ca" "secret" .name "items" (list (dict "key" .ca "path" "ca.crt" "variable" "INGEST_CA_FILE"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{/* The container's variables. Takes a dict of root and component. */}}
{{- define "minutehand.environment" -}}
- name: MINUTEHAND_CONFIG
  value: /etc/minutehand/config/minutehand.toml
{{- range $from := include "minutehand.secretFiles" . | fromJsonArray }}
{{- range .items }}
- name: MINUTEHAND_{{ .variable }}
  value: /etc/minutehand/{{ $from.volume }}/{{ .path }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Directories, never single files (subPath): Kubernetes updates only the former when the Secret changes. */}}
{{- define "minutehand.mounts" -}}
- name: config
  mountPath: /etc/minutehand/config
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- range include "minutehand.secretFiles" . | fromJsonArray }}
- name: {{ .volume }}
  mountPath: /etc/minutehand/{{ .volume }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* Takes a dict of root, component and configMap. */}}
{{- define "minutehand.volumes" -}}
- name: config
  configMap:
    name: {{ .configMap }}
- name: tmp
  emptyDir: {}
{{- range include "minutehand.secretFiles" . | fromJsonArray }}
- name: {{ .volume }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      {{- range .items }}
      - key: {{ .key }}
        path: {{ .path }}
      {{- end }}
{{- end }}
{{- end -}}

{{/* The same for the Spark operator. Takes the result of minutehand.secretFiles. */}}
{{- define "minutehand.operatorSecrets" -}}
{{- with . -}}
secrets:
  {{- range . }}
  - name: {{ .secret }}
    path: /etc/minutehand/{{ .volume }}
    secretType: Generic
  {{- end }}
{{- end }}
{{- end -}}
