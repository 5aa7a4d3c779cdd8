{{/* Grace periods of pods. The numbers are the settings' defaults; a test compares them with the programs'. */}}

{{- define "minutehand.endingSeconds" -}}10{{- end -}}

{{- define "minutehand.lastAnswersSeconds" -}}0.5{{- end -}}

{{/* A setting in seconds. Takes a list of the values' config, table, key and the setting's default. */}}
{{- define "minutehand.seconds" -}}
{{- $given := get (index . 0 | dig (index . 1) dict | default dict) (index . 2) -}}
{{- kindIs "invalid" $given | or (kindIs "string" $given) | ternary (index . 3) $given -}}
{{- end -}}

{{- define "minutehand.apiDrainSeconds" -}}
{{- $delay := include "minutehand.seconds" (list .Values.config "api" "shutdown_delay_seconds" 0.0) | float64 -}}
{{- $shutdown := include "minutehand.seconds" (list .Values.config "api" "shutdown_seconds" 10.0) | float64 -}}
{{- addf .Values.api.preStopSeconds $delay (include "minutehand.lastAnswersSeconds" . | float64) $shutdown (include "minutehand.endingSeconds" . | float64) | ceil | int -}}
{{- end -}}

{{/* The sum of a node's last steps: hand the pollers over, write in the heartbeat that it left, finish attempts in flight. */}}
{{- define "minutehand.nodeDrainSeconds" -}}
{{- $config := .Values.config -}}
{{- $drain := include "minutehand.seconds" (list $config "membership" "drain_seconds" 15.0) | float64 -}}
{{- $leave := include "minutehand.seconds" (list $config "membership" "leave_seconds" 5.0) | float64 -}}
{{- $margin := include "minutehand.seconds" (list $config "membership" "send_margin_seconds" 2.0) | float64 -}}
{{- $engine := include "minutehand.seconds" (list $config "delivery" "stop_grace_seconds" 15.0) | float64 -}}
{{- $ending := include "minutehand.endingSeconds" . | float64 -}}
{{- addf $drain (mulf 2 $leave) (mulf 2 $margin) $engine $ending | ceil | int -}}
{{- end -}}

{{- define "minutehand.apiGraceSeconds" -}}
{{- .Values.api.terminationGracePeriodSeconds | default (include "minutehand.apiDrainSeconds" .) -}}
{{- end -}}

{{- define "minutehand.nodeGraceSeconds" -}}
{{- .Values.node.terminationGracePeriodSeconds | default (include "minutehand.nodeDrainSeconds" .) -}}
{{- end -}}

{{/* Batches under way end or are given up, offsets are committed, and the group is left. */}}
{{- define "minutehand.ingestDrainSeconds" -}}
{{- $stop := include "minutehand.seconds" (list .Values.config "ingest" "stop_seconds" 10.0) | float64 -}}
{{- addf $stop (include "minutehand.leaveGroupSeconds" . | float64) (include "minutehand.endingSeconds" . | float64) | ceil | int -}}
{{- end -}}

{{- define "minutehand.leaveGroupSeconds" -}}10{{- end -}}

{{- define "minutehand.ingestGraceSeconds" -}}
{{- .Values.ingest.terminationGracePeriodSeconds | default (include "minutehand.ingestDrainSeconds" .) -}}
{{- end -}}
