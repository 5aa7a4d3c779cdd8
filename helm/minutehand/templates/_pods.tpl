{{/* What all pods have in common. */}}

{{/* Takes a dict of root and account. No service links: a Service called minutehand would add MINUTEHAND_* variables, which
the programs read as settings. */}}
{{- define "minutehand.podBasics" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "minutehand.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Scheduling of the pods of one kind. Takes a dict of root, component and values. */}}
{{- define "minutehand.placement" -}}
{{- with .root.Values.topologySpread }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- include "minutehand.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Liveness checks the event loop only. Readiness checks what the process needs, so that an outage of Cassandra takes pods
out of service and restarts none. Takes a dict of port (its name) and scheme. */}}
{{- define "minutehand.probes" -}}
startupProbe:
  httpGet:
    path: /livez
    port: {{ .port }}
    scheme: {{ upper .scheme }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /livez
    port: {{ .port }}
    scheme: {{ upper .scheme }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ .port }}
    scheme: {{ upper .scheme }}
  periodSeconds: 3
  timeoutSeconds: 3
  failureThreshold: 2
{{- end -}}
