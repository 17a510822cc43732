#!/usr/bin/env bash
# Installs what the tests need and is not there yet, with the system's own packager.
#
#   tools/setup.sh [server] [cc] [make] [go] [java] [maven] [postgres] [mysql]
#
# server    redis-server or valkey-server on PATH (what is asked for by default)
# cc        a C compiler, which the race detector wants
# make      GNU make
# go        the go command
# java      a Java development kit, 17 or newer
# maven     Maven
# postgres  PostgreSQL's server, wherever it is
# mysql     MariaDB's server or MySQL's, wherever it is
#
# What is there is left alone: the second run does nothing and needs no network.
set -euo pipefail
exec </dev/null

die() {
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# havein PROGRAM FOLDER...: is it on PATH, or in one of the folders?
havein() {
	local name=$1 dir
	have "$name" && return
	shift
	for dir in "$@"; do
		[ -x "$dir/$name" ] && return
	done
	return 1
}

# present WHAT: is it there already?
present() {
	case $1 in
	server) have redis-server || have valkey-server ;;
	cc) if [ -n "${CC:-}" ]; then have "${CC%% *}"; else have gcc || have clang || have cc; fi ;;
	make | go) have "$1" ;;
	java) have java && have javac ;;
	maven) have mvn ;;
	postgres) havein initdb /usr/lib/postgresql/*/bin && havein postgres /usr/lib/postgresql/*/bin ;;
	mysql) havein mariadbd /usr/sbin && have mariadb-install-db || havein mysqld /usr/sbin ;;
	*) die "unknown: '$1' (server, cc, make, go, java, maven, postgres, mysql)" ;;
	esac
}

# packager: the first package manager on PATH.
packager() {
	local p
	for p in apt-get dnf yum apk pacman zypper brew; do
		if have "$p"; then
			echo "$p"
			return
		fi
	done
}

# packages WHAT PACKAGER: the packages that may hold it, most likely first.
packages() {
	case $1:$2 in
	server:apt-get) echo redis-server valkey-server ;;
	server:pacman) echo valkey redis ;;
	server:*) echo redis valkey ;;
	cc:apt-get) echo build-essential ;; # gcc alone comes without the C library headers
	cc:apk) echo build-base ;;
	cc:brew) echo llvm ;;
	cc:*) echo gcc ;;
	make:*) echo make ;;
	go:apt-get) echo golang-go ;;
	go:dnf | go:yum) echo golang ;;
	go:*) echo go ;;
	java:apt-get) echo openjdk-17-jdk-headless default-jdk-headless ;;
	java:dnf | java:yum) echo java-17-openjdk-devel java-21-openjdk-devel java-latest-openjdk-devel ;;
	java:zypper) echo java-17-openjdk-devel java-21-openjdk-devel ;;
	java:apk) echo openjdk17 openjdk21 ;;
	java:pacman) echo jdk17-openjdk jdk-openjdk ;;
	java:*) echo openjdk@17 openjdk ;;
	maven:*) echo maven ;;
	postgres:dnf | postgres:yum | postgres:zypper) echo postgresql-server ;;
	postgres:*) echo postgresql ;;
	mysql:apt-get | mysql:dnf | mysql:yum) echo mariadb-server ;;
	mysql:*) echo mariadb ;;
	esac
}

# asroot COMMAND...: runs it as root, through sudo where that is needed and possible.
asroot() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		die "not root and no sudo: cannot run '$*'"
	fi
}

# install PACKAGER PACKAGE
install() {
	case $1 in
	apt-get) asroot env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$2" ;;
	dnf | yum) asroot "$1" install -y "$2" ;;
	apk) asroot apk add --no-cache "$2" ;;
	pacman) asroot pacman -Sy --noconfirm --needed "$2" ;;
	zypper) asroot zypper --non-interactive install "$2" ;;
	brew) brew install "$2" ;; # refuses to run as root
	esac
}

refreshed=
# ensure WHAT: installs it unless it is there, and checks that it is there then.
ensure() {
	local what=$1 by name
	if present "$what"; then
		return
	fi
	by=$(packager)
	[ -n "$by" ] || die "no $what on PATH and no known package manager: install it by hand"
	if [ "$by" = apt-get ] && [ -z "$refreshed" ]; then
		asroot apt-get -o DPkg::Lock::Timeout=300 update || echo "setup: apt-get update failed, going on with the old lists" >&2
		refreshed=yes
	fi
	for name in $(packages "$what" "$by"); do
		echo "setup: no $what on PATH, installing $name with $by"
		if install "$by" "$name" && hash -r && present "$what"; then
			return
		fi
	done
	die "could not install $what with $by (tried: $(packages "$what" "$by")): install it by hand"
}

[ $# -gt 0 ] || set -- server
for what in "$@"; do
	ensure "$what"
done
