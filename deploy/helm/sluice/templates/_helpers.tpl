{{- define "sluice.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}-sluice
{{- end }}

{{- define "sluice.labels" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.secret" -}}
{{ .Values.tokens.existingSecret | default (printf "%s-tokens" (include "sluice.name" .)) }}
{{- end }}

{{/* Is the setting `name` in `settings` or, from a Secret, in `extraEnv`? */}}
{{- define "sluice.has" -}}
{{- $name := printf "SLUICE_%s" .name -}}
{{- if index .values.settings .name }}yes{{ end -}}
{{- range .values.extraEnv }}{{ if eq .name $name }}yes{{ end }}{{ end -}}
{{- end }}

{{/* Of a probe. All listeners use TLS if there is a certificate. */}}
{{- define "sluice.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* The container of the daemon, for both variants. */}}
{{- define "sluice.container" -}}
name: sluice
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
env:
  {{- if .Values.sidecar.enabled }}
  {{- /* Probes come from the node, so that the admin API is not on loopback. */}}
  - { name: SLUICE_LISTEN_ADMIN, value: "*:8082" }
  {{- else }}
  - { name: SLUICE_LISTEN_HTTP, value: "*:8080" }
  - { name: SLUICE_LISTEN_GRPC, value: "*:8081" }
  - { name: SLUICE_LISTEN_RESP, value: "*:6380" }
  - { name: SLUICE_LISTEN_ADMIN, value: "*:8082" }
  - { name: SLUICE_ACCESS_TOKEN_FILE, value: /run/sluice-tokens/access-token }
  {{- end }}
  - { name: SLUICE_ADMIN_TOKEN_FILE, value: /run/sluice-tokens/admin-token }
  {{- if .Values.tls.existingSecret }}
  - { name: SLUICE_TLS_CERTIFICATE, value: /run/sluice-tls/tls.crt }
  - { name: SLUICE_TLS_KEY, value: /run/sluice-tls/tls.key }
  {{- end }}
  {{- if and (gt (int .Values.replicas) 1) (not (include "sluice.has" (dict "values" .Values "name" "USAGE"))) }}
  {{- /* The image names a file. Each replica would have subjects of its own. */}}
  - { name: SLUICE_USAGE, value: none }
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - { name: SLUICE_{{ $name }}, value: {{ $value | quote }} }
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  {{- if not .Values.sidecar.enabled }}
  - { name: http, containerPort: 8080 }
  - { name: grpc, containerPort: 8081 }
  - { name: resp, containerPort: 6380 }
  {{- end }}
  - { name: admin, containerPort: 8082 }
livenessProbe:
  httpGet: { path: /livez, port: admin, scheme: {{ include "sluice.scheme" . }} }
  periodSeconds: 10
readinessProbe:
  httpGet: { path: /readyz, port: admin, scheme: {{ include "sluice.scheme" . }} }
  periodSeconds: 5
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  # The folder and not a file of it, so that the daemon sees changes.
  - { name: policy, mountPath: /etc/sluice, readOnly: true }
  - { name: tokens, mountPath: /run/sluice-tokens, readOnly: true }
  - { name: state, mountPath: /var/lib/sluice }
  {{- if .Values.tls.existingSecret }}
  - { name: tls, mountPath: /run/sluice-tls, readOnly: true }
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "sluice.pod" -}}
securityContext:
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
automountServiceAccountToken: false
# The variables of a Service "sluice-..." would look like settings.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: 15
volumes:
  - name: policy
    configMap: { name: {{ include "sluice.name" . }} }
  - name: tokens
    secret: { secretName: {{ include "sluice.secret" . }}, defaultMode: 0440 }
  - name: state
    {{- if .Values.persistence.existingClaim }}
    persistentVolumeClaim: { claimName: {{ .Values.persistence.existingClaim }} }
    {{- else }}
    emptyDir: {}
    {{- end }}
  {{- with .Values.tls.existingSecret }}
  - name: tls
    secret: { secretName: {{ . }}, defaultMode: 0440 }
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
