#!/usr/bin/env bash
# deploy.sh SLUICE ROOT -- the files in deploy/: the chart renders in each
# variant, what it renders is valid, and the compose file names what exists.
#
# `helm` is used from build/go or PATH; `scripts/setup charts` builds it. Without
# helm the templates are not rendered. With kubeconform and schemas of Kubernetes
# they are compared with these.
sluice=$(realpath "$1") root=$(realpath "$2")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
PATH=$PATH:$root/build/go
chart=$root/deploy/helm/sluice
yaml=$root/build/node_modules/yaml

# ---- compose ----

run node - "$yaml" "$root/deploy/compose.yaml" <<'EOJ'
const fs = require('fs'), path = require('path')
const YAML = require(process.argv[2]), file = process.argv[3]
const compose = YAML.parse(fs.readFileSync(file, 'utf8'))
const fail = (why) => { console.error(why); process.exitCode = 1 }
const secrets = Object.keys(compose.secrets)
for (const [name, service] of Object.entries(compose.services)) {
    for (const volume of service.volumes ?? []) {
        const [from] = volume.split(':')
        if (from.startsWith('.') && !fs.existsSync(path.join(path.dirname(file), from)))
            fail(`${name} mounts ${from}, which does not exist`)
        if (!from.startsWith('.') && !(from in compose.volumes))
            fail(`${name} uses the volume ${from}, which is not declared`)
    }
    for (const secret of service.secrets ?? [])
        if (!secrets.includes(secret)) fail(`no secret ${secret}`)
    for (const other of Object.keys(service.depends_on ?? {}))
        if (!compose.services[other]?.healthcheck) fail(`${other} has no health check`)
    for (const port of service.ports ?? [])
        if (!port.startsWith('127.0.0.1:')) fail(`${name} is open to other machines: ${port}`)
}
const sluice = compose.services.sluice
if (!sluice.read_only || sluice.cap_drop[0] !== 'ALL') fail('sluice has rights')
for (const [name, value] of Object.entries(sluice.environment))
    console.log(`${name}=${value}`)
EOJ
check 'compose.yaml names what exists' test "$status$err" = 0
run promtool check config --syntax-only \
    "$root/deploy/prometheus/prometheus.yaml"
check 'Prometheus reads its configuration' is 0

# ---- the chart ----

run node -e '
const YAML = require(process.argv[1]), fs = require("fs")
const values = YAML.parse(fs.readFileSync(process.argv[2], "utf8"))
process.stdout.write(values.policy)' "$yaml" "$chart/values.yaml"
echo "$out" >policy.yaml
run "$sluice" check policy.yaml
check 'the policy of the chart is valid' is 0

if ! command -v helm >/dev/null; then
    echo '# no helm: the templates are not rendered'
    finish
fi
render() {
    helm template limits "$chart" --kube-version 1.29.0 "$@" >rendered.yaml
}
# Names in a resource are those of another: labels, ports, volumes, secrets.
valid() {
    node - "$yaml" <<'EOJ'
const YAML = require(process.argv[2])
const all = YAML.parseAllDocuments(require('fs').readFileSync('rendered.yaml', 'utf8'))
    .map((each) => each.toJS()).filter(Boolean)
const fail = (why) => { console.error(why); process.exitCode = 1 }
const of = (kind) => all.filter((each) => each.kind === kind)
const within = (some, more) => Object.entries(some).every(([k, v]) => more[k] === v)
for (const each of all)
    if (!each.apiVersion || !each.metadata?.name) fail(`${each.kind} has no name`)
const { template, selector } = of('Deployment')[0].spec
const labels = template.metadata.labels, pod = template.spec
const volumes = pod.volumes.map((each) => each.name)
const ports = pod.containers.flatMap((each) => each.ports.map((port) => port.name))
if (!within(selector.matchLabels, labels)) fail('the Deployment selects other pods')
for (const container of pod.containers) {
    for (const mount of container.volumeMounts ?? [])
        if (!volumes.includes(mount.name)) fail(`no volume ${mount.name}`)
    const names = container.env.map((each) => each.name)
    if (new Set(names).size !== names.length) fail(`a variable twice: ${names}`)
    for (const variable of container.env)
        if (typeof variable.value !== 'string' && !variable.valueFrom)
            fail(`${variable.name} has no text`)
    for (const probe of [container.livenessProbe, container.readinessProbe])
        if (probe && !ports.includes(probe.httpGet.port)) fail('a probe without a port')
}
for (const port of of('Service')[0].spec.ports)
    if (!ports.includes(port.targetPort)) fail(`no port ${port.targetPort}`)
for (const each of [...of('Service').map((one) => one.spec.selector),
    ...of('PodDisruptionBudget').map((one) => one.spec.selector.matchLabels),
    ...of('NetworkPolicy').map((one) => one.spec.podSelector.matchLabels)])
    if (!within(each, labels)) fail('a selector of other pods')
for (const each of of('ServiceMonitor')) {
    if (!within(each.spec.selector.matchLabels, of('Service')[0].metadata.labels))
        fail('the ServiceMonitor selects another Service')
    if (!of('Service')[0].spec.ports.some((p) => p.name === each.spec.endpoints[0].port))
        fail('the ServiceMonitor has another port')
    // Prometheus runs in another namespace than we do.
    const other = (peer) => peer.namespaceSelector &&
        within({ 'app.kubernetes.io/name': 'prometheus' },
            peer.podSelector.matchLabels)
    for (const policy of of('NetworkPolicy'))
        if (!policy.spec.ingress.some((rule) =>
            rule.ports.some((port) => port.port === 8082) && rule.from.some(other)))
            fail('the NetworkPolicy keeps Prometheus out')
}
if (pod.enableServiceLinks !== false) fail('Services set variables')
const secret = pod.volumes.find((each) => each.secret).secret.secretName
if (!of('Secret').some((each) => each.metadata.name === secret)) fail('no Secret')
EOJ
}
# Kubernetes knows every kind and every field. A ServiceMonitor is not its own.
conforms() {
    local schemas=$root/build/go/schemas

    if ! command -v kubeconform >/dev/null || [[ ! -d $schemas ]]; then
        echo '# no kubeconform: not compared with the schemas of Kubernetes'
        return
    fi
    kubeconform -strict -skip ServiceMonitor -schema-location \
        "$schemas/{{.ResourceKind}}{{.KindSuffix}}.json" "${1:-rendered.yaml}"
}
kinds() {
    sed -n 's/^kind: //p' rendered.yaml | sort | paste -sd ' '
}

run render
check 'it renders' is 0
check 'what it should' test "$(kinds)" = \
    'ConfigMap Deployment NetworkPolicy Secret Service'
run valid
check 'valid resources' is 0
run conforms
check 'as Kubernetes has them' is 0
if [[ $out != '# no'* ]]; then
    sed 's/  replicas:/  replikas:/' rendered.yaml >typo.yaml
    run conforms typo.yaml
    check 'a typo would be found' has "$out" replikas
fi
run render --set replicas=3
check 'three replicas need a shared store' has "$err" 'settings.STORE'
run render --set replicas=3 --set settings.STORE=redis://redis:6379 \
    --set serviceMonitor.enabled=true
check 'with one' test "$(kinds)" = \
    'ConfigMap Deployment NetworkPolicy PodDisruptionBudget Secret Service ServiceMonitor'
run valid
check 'also valid' is 0
run conforms
check 'as Kubernetes has them, too' is 0
run render --set replicas=3 --set persistence.existingClaim=disk \
    --set 'extraEnv[0].name=SLUICE_STORE' --set 'extraEnv[0].value=redis://redis'
check 'they cannot share a volume' has "$err" 'one state file'
run render --set replicas=3 --set 'extraEnv[0].name=SLUICE_STORE' \
    --set 'extraEnv[0].value=redis://redis'
check 'a store from extraEnv is one, too' is 0
check 'without a database they have no subjects' \
    grep -q 'name: SLUICE_USAGE, value: none' rendered.yaml
for usage in settings.USAGE=postgres://db \
    'extraEnv[0].name=SLUICE_USAGE,extraEnv[0].value=postgres://db'; do
    run render --set replicas=3,settings.STORE=redis://redis --set "$usage"
    check "with $usage" is 0
    run valid
    check 'they have that one' is 0
done
run render --set tls.existingSecret=web --set serviceMonitor.enabled=true \
    --set 'extraVolumes[0].name=keys,extraVolumes[0].configMap.name=keys' \
    --set 'extraVolumeMounts[0].name=keys,extraVolumeMounts[0].mountPath=/keys'
check 'with TLS' is 0
check 'probes use it' test "$(grep -c 'scheme: HTTPS' rendered.yaml)" = 2
run valid
check 'valid with more files' is 0
run conforms
check 'and conforms with them' is 0
run render --set sidecar.enabled=true --set sidecar.app.image=app:1 \
    --set 'sidecar.app.env[0].name=A,sidecar.app.env[0].value=b' \
    --set sidecar.app.container.workingDir=/srv
check 'its address' grep -q 'value: "http://127.0.0.1:8080"' rendered.yaml
run render --set sidecar.enabled=true --set sidecar.app.image=app:1 \
    --set sidecar.app.port=8080
check 'its port is taken' has "$err" 'set settings.LISTEN_HTTP to another one'
run render --set sidecar.enabled=true --set sidecar.app.image=app:1 \
    --set sidecar.app.port=8080 --set settings.LISTEN_HTTP=127.0.0.1:18080
check 'which that changes' grep -q 'value: "http://127.0.0.1:18080"' rendered.yaml
run render --set sidecar.enabled=true --set sidecar.app.image=app:1 \
    --set 'sidecar.app.env[0].name=A,sidecar.app.env[0].value=b' \
    --set sidecar.app.container.workingDir=/srv
check 'beside an application' grep -q 'image: "app:1"' rendered.yaml
check 'on loopback' test -z "$(grep SLUICE_LISTEN_HTTP rendered.yaml)"
run valid
check 'valid too' is 0
run conforms
check 'and conforms' is 0
finish
