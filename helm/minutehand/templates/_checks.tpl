{{/* Rules that the schema can't express, or not with a helpful message. The first fault ends the rendering. */}}

{{- define "minutehand.check" -}}
{{- include "minutehand.checkSettings" . -}}
{{- include "minutehand.checkSecrets" . -}}
{{- include "minutehand.checkIngest" . -}}
{{- include "minutehand.checkAvailability" . -}}
{{- include "minutehand.checkOptions" . -}}
{{- include "minutehand.checkForms" . -}}
{{- end -}}

{{- define "minutehand.checkSettings" -}}
{{- $config := .Values.config -}}
{{- if not (compact $config.cassandra.contact_points) -}}
{{- fail "config.cassandra.contact_points is empty: name some nodes of your Cassandra, such as --set 'config.cassandra.contact_points={cassandra.example}'." -}}
{{- end -}}
{{- range $place, $instead := include "minutehand.ownedSettings" . | fromJson -}}
{{- $table := splitList "." $place | first -}}
{{- $key := splitList "." $place | last -}}
{{- if hasKey (index $config $table | default dict) $key -}}
{{- fail (printf "config.%s is not to be given here: %s." $place $instead) -}}
{{- end -}}
{{- end -}}
{{- range $table := list "api" "ops" "ingest" -}}
{{- $host := index $config $table "host" | toString -}}
{{- if or (hasPrefix "127." $host) (has $host (list "localhost" "::1")) -}}
{{- fail (printf "config.%s.host is %s: nothing outside of the container could reach it, not even its probes; use 0.0.0.0, or :: for IPv6." $table $host) -}}
{{- end -}}
{{- end -}}
{{- range $component := list "api" "node" "ingest" -}}
{{- range (index $.Values $component).extraEnv -}}
{{- if hasPrefix "MINUTEHAND_" .name -}}
{{- fail (printf "%s.extraEnv has %s: give settings in config, where they are checked; variables with this prefix win over it." $component .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Settings that belong elsewhere in the values: JSON of what to do instead, by table and key. */}}
{{- define "minutehand.ownedSettings" -}}
{{- $secret := "it is a secret; put it into a Secret and name that in %s" -}}
{{- $file := "it is a file; put its content into a Secret and name that in %s" -}}
{{- $alone := "a pod is one process, which tells its health on its own port" -}}
{{- $pod := "each pod has its own, which the chart gives it" -}}
{{- dict
  "cluster.token" (printf $secret "secrets.keys")
  "cluster.token_file" (printf $file "secrets.keys")
  "cluster.node_id" $pod
  "ops.advertised_host" $pod
  "goscheduler.key" (printf $secret "secrets.keys")
  "goscheduler.key_file" (printf $file "secrets.keys")
  "console.oidc_client_secret" (printf $secret "secrets.keys")
  "console.oidc_client_secret_file" (printf $file "secrets.keys")
  "api.admin_key" (printf $secret "secrets.keys")
  "api.admin_key_file" (printf $file "secrets.keys")
  "api.tls_cert_file" (printf $file "secrets.apiTls")
  "api.tls_key_file" (printf $file "secrets.apiTls")
  "api.tls_client_ca_file" "the probes of Kubernetes show no certificate; let a proxy in front ask callers for theirs"
  "ops.tls_cert_file" (printf $file "secrets.nodeTls")
  "ops.tls_key_file" (printf $file "secrets.nodeTls")
  "ops.tls_client_ca_file" "the probes of Kubernetes show no certificate; the cluster's token is asked for anyway"
  "cluster.tls_ca_file" (printf $file "secrets.nodeTls")
  "cluster.tls_cert_file" "nodes of the chart ask for no certificate, as the probes of Kubernetes show none"
  "cluster.tls_key_file" "nodes of the chart ask for no certificate, as the probes of Kubernetes show none"
  "ingest.ca_file" (printf $file "secrets.apiTls")
  "ingest.key" (printf $secret "secrets.ingestKey")
  "ingest.key_file" (printf $file "secrets.ingestKey")
  "ingest.password_file" (printf $file "secrets.kafkaLogin")
  "ingest.tls_ca_file" (printf $file "secrets.kafkaTls")
  "ingest.tls_cert_file" (printf $file "secrets.kafkaTls")
  "ingest.tls_key_file" (printf $file "secrets.kafkaTls")
  "ingest.username_file" (printf $file "secrets.kafkaLogin")
  "health.port" $alone
  "health.socket" $alone
  "api.metrics_socket" $alone
  "secrets.key_ring_file" (printf $file "secrets.keyRing")
  "api.share_port" "a pod is one process; raise api.replicas instead"
  "cassandra.username" (printf $secret "secrets.cassandraLogin")
  "cassandra.username_file" (printf $file "secrets.cassandraLogin")
  "cassandra.password" (printf $secret "secrets.cassandraLogin")
  "cassandra.password_file" (printf $file "secrets.cassandraLogin")
  "cassandra.tls_ca_file" (printf $file "secrets.cassandraTls")
  "cassandra.tls_cert_file" (printf $file "secrets.cassandraTls")
  "cassandra.tls_key_file" (printf $file "secrets.cassandraTls")
  "trace.authorization" (printf $secret "secrets.traceCollector")
  "trace.authorization_file" (printf $file "secrets.traceCollector")
  "trace.ca_file" (printf $file "secrets.traceCollector")
  | toJson -}}
{{- end -}}

{{- define "minutehand.checkSecrets" -}}
{{- with .Values.secrets -}}
{{- if not .keys.name -}}
{{- fail (printf "secrets.keys.name is empty: make a Secret, kubectl create secret generic minutehand-keys --from-literal=%s=$(openssl rand -hex 24) --from-literal=%s=$(openssl rand -hex 24), and name it with --set secrets.keys.name=minutehand-keys." .keys.adminKey .keys.clusterToken) -}}
{{- end -}}
{{- if not (or .keyRing.name .keyRing.unencrypted) -}}
{{- fail (printf "secrets.keyRing.name is empty: make a Secret, kubectl create secret generic minutehand-key-ring --from-literal=%s=\"first $(openssl rand -base64 32)\", and name it with --set secrets.keyRing.name=minutehand-key-ring; or, for a trial, let signing secrets be stored in the clear: --set secrets.keyRing.unencrypted=true." .keyRing.file) -}}
{{- end -}}
{{- if and .cassandraTls.name (not .cassandraTls.ca) -}}
{{- fail "secrets.cassandraTls.ca is empty: name the entry of that Secret with the authorities that sign Cassandra's certificates." -}}
{{- end -}}
{{- if and .nodeTls.name (not ($.Values.config.cluster | default dict).tls_server_name) -}}
{{- fail "config.cluster.tls_server_name is empty, and secrets.nodeTls is given: say which name the nodes' certificate has, since their addresses change." -}}
{{- end -}}
{{- if and .traceCollector.name (not (or .traceCollector.authorization .traceCollector.ca)) -}}
{{- fail "secrets.traceCollector names no entry: name the one with the authorization, the one with the authorities, or both." -}}
{{- end -}}
{{- if ne (empty .cassandraTls.cert) (empty .cassandraTls.key) -}}
{{- fail "secrets.cassandraTls has one of cert and key: Cassandra takes a certificate with its key, so name both entries or none." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "minutehand.checkIngest" -}}
{{- $config := .Values.config.ingest -}}
{{- $secrets := .Values.secrets -}}
{{- if .Values.ingest.enabled -}}
{{- if not $secrets.ingestKey.name -}}
{{- fail (printf "secrets.ingestKey.name is empty, and ingest.enabled is true: make a key of the client, minutehand keys create CLIENT --scope write, put it into a Secret as %s, and name that with --set secrets.ingestKey.name=NAME." $secrets.ingestKey.key) -}}
{{- end -}}
{{- range $key := list "brokers" "topics" "client" -}}
{{- if not (get $config $key) -}}
{{- fail (printf "config.ingest.%s is empty, and ingest.enabled is true: say it there." $key) -}}
{{- end -}}
{{- end -}}
{{- if ne (empty $config.sasl_mechanism) (empty $secrets.kafkaLogin.name) -}}
{{- fail "config.ingest.sasl_mechanism and secrets.kafkaLogin.name go together: give both or neither." -}}
{{- end -}}
{{- if and $secrets.kafkaTls.name (not $secrets.kafkaTls.ca) -}}
{{- fail "secrets.kafkaTls.ca is empty: name the entry of that Secret with the authorities that sign the brokers' certificates." -}}
{{- end -}}
{{- if ne (empty $secrets.kafkaTls.cert) (empty $secrets.kafkaTls.key) -}}
{{- fail "secrets.kafkaTls has one of cert and key: brokers take a certificate with its key, so name both entries or none." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "minutehand.checkAvailability" -}}
{{- range $component := list "api" "node" "ingest" -}}
{{- $values := index $.Values $component -}}
{{- if has ($values.maxUnavailable | toString) (list "0" "0%") -}}
{{- fail (printf "%s.maxUnavailable is %v: no machine could be drained any more; use 1 or more." $component $values.maxUnavailable) -}}
{{- end -}}
{{- $needed := include (printf "minutehand.%sDrainSeconds" $component) $ | int -}}
{{- with $values.terminationGracePeriodSeconds -}}
{{- if lt (int .) $needed -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %v, and ending in good order may take %d: leave it out, and it is worked out from the settings." $component . $needed) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.api.autoscaling -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "api.autoscaling.minReplicas is %v, above maxReplicas (%v): exchange them." .minReplicas .maxReplicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "minutehand.checkOptions" -}}
{{- if and .Values.spark.application.enabled (not .Values.spark.application.image) -}}
{{- fail "spark.application.image is empty: name an image with Spark's own entry point, its connector to Cassandra and Minutehand's packages." -}}
{{- end -}}
{{- if and .Values.spark.application.enabled (not .Values.spark.application.arguments) -}}
{{- fail "spark.application.arguments is empty: name the job and what it takes, such as [usage]." -}}
{{- end -}}
{{- if .Values.spark.jobs.archive.enabled -}}
{{- $output := regexFind "--output[ =]\"?/[^ \"]+" .Values.spark.jobs.archive.arguments | regexFind "/.*" -}}
{{- $mounted := false -}}
{{- range .Values.spark.extraVolumeMounts -}}
{{- if or (eq $output .mountPath) (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $output) -}}
{{- $mounted = true -}}
{{- end -}}
{{- end -}}
{{- if and $output (not $mounted) -}}
{{- fail (printf "spark.jobs.archive writes to %s, and no volume is mounted there: give one in spark.extraVolumes and spark.extraVolumeMounts, or an address such as s3a://bucket/archive in spark.jobs.archive.arguments." $output) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.spark.application.enabled .Values.secrets.cassandraTls.name (ne (get .Values.spark.application.sparkConf "spark.cassandra.connection.ssl.enabled") "true") -}}
{{- fail "spark.application.sparkConf lacks spark.cassandra.connection.ssl.enabled, and secrets.cassandraTls is named: Spark's connector takes a truststore; give its settings spark.cassandra.connection.ssl.* there, as spark/README.md says." -}}
{{- end -}}
{{- range $kind, $path := dict "prometheusRule" "files/rules/minutehand.yaml" "dashboard" "files/dashboards/minutehand.json" -}}
{{- if and (index $.Values.monitoring $kind).enabled (not ($.Files.Get $path)) -}}
{{- fail (printf "monitoring.%s.enabled is true, and this copy of the chart lacks %s: take the whole chart." $kind $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes a list of place, value, pattern and what it must be. */}}
{{- define "minutehand.checkForm" -}}
{{- if not (regexMatch (index . 2) (index . 1 | toString)) -}}
{{- fail (printf "%s is %q: it must be %s." (index . 0) (index . 1 | toString) (index . 3)) -}}
{{- end -}}
{{- end -}}

{{- define "minutehand.checkForms" -}}
{{- $name := "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$" -}}
{{- $object := "the name of an object in Kubernetes, of lower-case letters, digits, dashes and dots" -}}
{{- include "minutehand.checkForm" (list "fullnameOverride" .Values.fullnameOverride $name $object) -}}
{{- include "minutehand.checkForm" (list "nameOverride" .Values.nameOverride $name $object) -}}
{{- include "minutehand.checkForm" (list "serviceAccount.name" .Values.serviceAccount.name $name $object) -}}
{{- range $secret, $given := .Values.secrets -}}
{{- include "minutehand.checkForm" (list (printf "secrets.%s.name" $secret) $given.name $name $object) -}}
{{- range $field, $entry := omit $given "name" -}}
{{- include "minutehand.checkForm" (list (printf "secrets.%s.%s" $secret $field) $entry "^[A-Za-z0-9._-]*$" "the name of an entry of that Secret, such as ca.crt") -}}
{{- end -}}
{{- end -}}
{{- range $place, $image := dict "image" .Values.image "spark.image" .Values.spark.image -}}
{{- include "minutehand.checkForm" (list (printf "%s.tag" $place) $image.tag "^[A-Za-z0-9_.-]*$" "an image's tag, without its repository") -}}
{{- include "minutehand.checkForm" (list (printf "%s.digest" $place) $image.digest "^(sha256:[0-9a-f]{64})?$" "sha256: and 64 hexadecimal digits") -}}
{{- end -}}
{{- range $component := list "api" "node" "ingest" -}}
{{- include "minutehand.checkForm" (list (printf "%s.maxUnavailable" $component) (index $.Values $component).maxUnavailable "^[0-9]+%?$" "a number of pods or a percentage, such as 1 or 25%") -}}
{{- end -}}
{{- include "minutehand.checkForm" (list "node.nodeIdPrefix" .Values.node.nodeIdPrefix "^[a-z0-9.-]*$" "of lower-case letters, digits, dashes and dots") -}}
{{- range $field := list "receiversExcept" "receiversExceptIPv6" -}}
{{- range index $.Values.networkPolicy $field -}}
{{- include "minutehand.checkForm" (list (printf "networkPolicy.%s" $field) . "^[0-9a-fA-F:.]+/[0-9]+$" "networks with their length, such as 10.0.0.0/8") -}}
{{- end -}}
{{- end -}}
{{- include "minutehand.checkForm" (list "monitoring.serviceMonitor.interval" .Values.monitoring.serviceMonitor.interval "^[0-9]+(ms|s|m|h)$" "a time as Prometheus writes it, such as 15s") -}}
{{- range $job, $given := .Values.spark.jobs -}}
{{- include "minutehand.checkForm" (list (printf "spark.jobs.%s.schedule" $job) $given.schedule "^(@(hourly|daily|weekly|monthly|yearly)|\\S+( \\S+){4})$" "a cron expression of five fields, such as 20 * * * *") -}}
{{- end -}}
{{- range $place, $memory := dict "spark.memory" .Values.spark.memory "spark.application.executorMemory" .Values.spark.application.executorMemory -}}
{{- include "minutehand.checkForm" (list $place $memory "^[0-9]+[kmgKMG]$" "an amount of memory as Java writes it, such as 2g") -}}
{{- end -}}
{{- end -}}
