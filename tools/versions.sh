#!/usr/bin/env bash
# Runs tests on several versions of the server, one after the other, and says which of them passed.
#
#   tools/versions.sh NAME...
#
# NAME is a version that tools/servers.sh knows, or the path of a server binary.
#
# SHORT=1    a part: about a minute and a half a version
# INTEROP=0  without what Redisson does on the wire, which needs Java
# GO         the go command
# TESTFLAGS  further arguments of go test
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

go=${GO:-go}
# Several tests measure or have short leases: as many at once as make test has.
flags="-p 1 -parallel 4 -timeout 20m ${TESTFLAGS:-}"

# run ARGUMENT...: go test
run() {
	# shellcheck disable=SC2086 # flags are several
	$go test "$@" $flags || failed=1
}

# tests: what is run on each version. The exit status says whether all passed.
tests() {
	local failed=0
	if [ "${SHORT:-0}" = 1 ]; then
		# Each call, each kind of lock, each topology: what a version can change.
		run ./engine/internal/suite/api ./engine/internal/suite/redisson
		run ./engine/internal/suite/cluster -run '^(TestClusterEveryFamilyOnEverySlot|TestSentinelOpenSaysWhatIsWrong|TestC086_PlannedFailoversAreFollowed)$'
	else
		run ./engine/internal/suite/... ./resp/... ./internal/redistest ./internal/redisproc
	fi
	if [ "${INTEROP:-1}" = 1 ]; then
		HOLDFAST_INTEROP=required run ./interop -run '^TestWire$'
	fi
	return $failed
}

status=0
table=
for name in "$@"; do
	case $name in
	*/*) server=$name ;;
	*)
		tools/servers.sh bin/servers "$name" || exit 1
		server=$PWD/bin/servers/$name/server
		;;
	esac
	version=$("$server" --version) || exit 1
	version=$(sed -E 's/^([A-Za-z]+) .*v=([^ ]+).*/\1 \2/' <<<"$version")
	printf '\n==> %s\n' "$version"
	began=$SECONDS
	verdict=ok
	if ! HOLDFAST_REDIS_SERVER=$server tests; then
		verdict=FAILED
		status=1
	fi
	table+=$(printf '%-16s %-7s %4d s' "$version" "$verdict" "$((SECONDS - began))")$'\n'
done
printf '\n%s' "$table"
exit $status
