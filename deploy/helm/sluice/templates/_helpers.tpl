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
  httpGet: { path: /livez, port: admin }
  periodSeconds: 10
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 5
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  # The folder and not a file of it, so that the daemon sees changes.
  - { name: policy, mountPath: /etc/sluice, readOnly: true }
  - { name: tokens, mountPath: /run/sluice-tokens, readOnly: true }
  - { name: state, mountPath: /var/lib/sluice }
{{- end }}

{{- define "sluice.pod" -}}
securityContext:
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
automountServiceAccountToken: false
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
