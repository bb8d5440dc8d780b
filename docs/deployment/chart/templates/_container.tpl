{{- define "batching.container" -}}
name: batching
image: {{ .Values.image | quote }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
args: {{- toYaml .Values.args | nindent 2 }}
env:
  - {name: ADAPTIVE_BATCHING_HOST, value: 0.0.0.0}
  - {name: ADAPTIVE_BATCHING_PORT, value: "8080"}
  - {name: ADAPTIVE_BATCHING_ADMIN_HOST, value: 0.0.0.0}
  - {name: ADAPTIVE_BATCHING_ADMIN_PORT, value: "9000"}
  - {name: ADAPTIVE_BATCHING_DRAIN_DELAY, value: {{ .Values.drainDelay | quote }}}
  - {name: ADAPTIVE_BATCHING_LOG_FORMAT, value: json}
  {{- with .Values.env }}{{ toYaml . | nindent 2 }}{{ end }}
ports:
  - {name: http, containerPort: 8080}
  - {name: admin, containerPort: 9000}
readinessProbe:
  # of a sidecar: the model server takes connections
  httpGet: {path: {{ if .Values.model }}"/readyz?deep=1"{{ else }}/readyz{{ end }}, port: admin}
  periodSeconds: 2
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  timeoutSeconds: 3
  failureThreshold: 5
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end }}
