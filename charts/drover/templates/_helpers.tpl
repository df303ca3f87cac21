{{- define "drover.labels" -}}
app.kubernetes.io/managed-by: drover
app.kubernetes.io/name: drover
app.kubernetes.io/part-of: drover
cluster.x-k8s.io/provider: infrastructure-drover
clusterctl.cluster.x-k8s.io: ""
{{- end }}
{{- define "drover.selector" -}}
app.kubernetes.io/name: drover
app.kubernetes.io/component: manager
{{- end }}
