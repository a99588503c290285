#!/usr/bin/env bash
# java.sh ROOT SLUICED SLUICED_TEST SLUICE TEST -- one test of clients/java.
# java.sh ROOT build [MAVEN-OPTION...] -- build everything that the tests need.
#
# A copy of the sources is built in build/clients/java, by Maven, when they have
# changed. scripts/setup loads what the build needs once; the tests are offline,
# and skipped if it could not be loaded.
set -euo pipefail

root=$1
here=$root/test/clients/langs
built=${SLUICE_CLIENTS:-$root/build/clients}/java
tests=$built/test/clients/langs/java/tests/target

skip() {
    echo "1..0 # SKIP $*"
    exit 0
}

sources() {
    (cd "$root" && find clients/java examples/spring examples/camel \
        test/clients/langs/java -type f -not -path '*/target/*' | LC_ALL=C sort)
}

# build [MAVEN-OPTION...]: by the first test; the others wait.
build() {
    local sum

    mkdir -p "$built"
    exec 9>"$built/lock"
    flock 9
    sum=$(cd "$root" && sources | xargs -d '\n' sha256sum | sha256sum)
    if [[ $(cat "$built/.built" 2>/dev/null) != "$sum" ]]; then
        find "$built" -type d -name src -prune -exec rm -rf {} +
        sources | tar -C "$root" -c -T - | tar -C "$built" -x
        if ! mvn -B -q "$@" -f "$built/test/clients/langs/java/pom.xml" package \
            </dev/null >"$built/log" 2>&1; then
            return 1
        fi
        echo "$sum" >"$built/.built"
    fi
    flock -u 9
}

if [[ $2 = build ]]; then
    build "${@:3}"
    exit
fi

sluiced=$(realpath "$2") sluiced_test=$(realpath "$3") sluice=$(realpath "$4")
[[ -f $built/.loaded ]] ||
    skip "no Maven artefacts: scripts/setup loads them, with Maven and a JDK 17"
if ! build -o; then
    sed 's/^/# /' "$built/log"
    echo "Bail out! clients/java does not build; see $built/log"
    exit 1
fi
# The tests start Java for seconds: the second compiler would not pay.
java=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto)
run=("${java[@]}" -cp "$tests/tests-0.1.0.jar:$tests/lib/*")

case $5 in
java)
    exec /usr/bin/python3 "$here/conformance.py" \
        "$root/clients/conformance.json" "$sluice" "${run[@]}" sluice.Runner
    ;;
java-real)
    exec /usr/bin/python3 "$here/java/real.py" "$root" "$sluiced" "${run[@]}"
    ;;
spring-filter | spring-interceptor)
    exec /usr/bin/python3 "$here/apps.py" "$sluiced" "$root/examples/web.yaml" \
        spring "Started SpringApp" "${run[@]}" sluice.SpringApp \
        --server.port=PORT --sluice.web.mode="${5#spring-}"
    ;;
spring)
    exec /usr/bin/python3 "$here/java/examples.py" spring "$sluiced_test" \
        "$root/presets/unraveldocs.yaml" \
        "${java[@]}" -jar "$built/examples/spring/target/spring-1.jar"
    ;;
camel)
    exec /usr/bin/python3 "$here/java/examples.py" camel "$sluiced_test" \
        "$root/presets/fluo.yaml" \
        "${java[@]}" -jar "$built/examples/camel/target/camel-1.jar"
    ;;
spring-page)
    exec /usr/bin/python3 "$here/java/page.py" "$root" spring "$sluiced_test" \
        "$tests/lib/*" example.Application
    ;;
camel-page)
    exec /usr/bin/python3 "$here/java/page.py" "$root" camel "$sluiced_test" \
        "$built/examples/camel/target/lib/*" org.apache.camel.main.Main
    ;;
*)
    echo "Bail out! no test $5"
    exit 1
    ;;
esac
