#!/usr/bin/env bash
# Fetches server versions beside the one that is installed, for `make versions`, and MySQL for `make databases MYSQL=1`.
#
#   tools/servers.sh DIR NAME...
#
# NAME is one of those in the table below. Its Debian packages are fetched together with the libraries that they need,
# the C library included. They are unpacked below DIR and run by their own dynamic loader: nothing is installed, and no
# file outside DIR changes. apt-get fetches them, with lists and a configuration of its own, and verifies signatures and
# checksums as it does for every package. DIR/NAME/server is then a server binary, for HOLDFAST_REDIS_SERVER or
# HOLDFAST_MYSQLD.
#
# DEBIAN_MIRROR  where the packages are; by default the mirror that apt is configured with
#
# What is there already is left alone: the second run needs no network.
set -euo pipefail
exec </dev/null

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
	printf 'servers: %s\n' "$*" >&2
	exit 1
}

# source_of NAME: the Debian release that has it, the file that is the server, and the packages.
source_of() {
	case $1 in
	redis-6.0) echo bullseye usr/bin/redis-server redis-server redis-tools ;; # the binary is in the tools
	redis-7.0) echo bookworm usr/bin/redis-server redis-server redis-tools ;;
	redis-8.0) echo trixie usr/bin/redis-server redis-server redis-tools ;;
	valkey-8.1) echo trixie usr/bin/valkey-server valkey-server valkey-tools ;;
	valkey-next) echo sid usr/bin/valkey-server valkey-server valkey-tools ;; # whatever is newest
	mysql-next) echo sid usr/sbin/mysqld mysql-server-core ;;                 # no other release has it
	*) die "unknown: '$1' (redis-6.0, redis-7.0, redis-8.0, valkey-8.1, valkey-next, mysql-next)" ;;
	esac
}

[ $# -ge 2 ] || die "usage: tools/servers.sh DIR NAME..."
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift

missing=()
for name in "$@"; do
	source_of "$name" >/dev/null
	[ -x "$dir/$name/server" ] || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0

for tool in apt-get apt-cache apt-config dpkg-deb; do
	command -v "$tool" >/dev/null || die "$tool is not on PATH: set HOLDFAST_REDIS_SERVER to a server of your own instead"
done
[ -r "$keyring" ] || die "$keyring is missing: install debian-archive-keyring"

mirror=${DEBIAN_MIRROR:-}
if [ -z "$mirror" ]; then
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/$') ||
		die "apt is not configured with a Debian mirror: set DEBIAN_MIRROR"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the system's configuration says about fetching holds here too; its hooks would act on the system.
{
	printf 'Dir::Etc::parts "/dev/null";\nDir::Etc::main "/dev/null";\n'
	apt-config dump Acquire
} >"$work/apt.conf"
export APT_CONFIG=$work/apt.conf

# use RELEASE: has apt know the packages of that release, and no others.
use() {
	mkdir -p "$work/$1/lists/partial" "$work/$1/cache/archives/partial"
	echo "deb [signed-by=$keyring] $mirror $1 main" >"$work/$1/sources.list"
	options=(
		-o Dir::Etc::sourcelist="$work/$1/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/$1/lists"
		-o Dir::State::status=/dev/null -o Dir::Cache="$work/$1/cache" -o APT::Sandbox::User=root
		-o Acquire::Retries=3 -qq
	)
	[ -e "$work/$1/known" ] || apt-get "${options[@]}" update
	touch "$work/$1/known"
}

# libraries PACKAGE...: the libraries that the packages need, and those that these need.
libraries() {
	local -A known=()
	local todo=("$@") package found
	while [ ${#todo[@]} -gt 0 ]; do
		package=${todo[0]}
		todo=("${todo[@]:1}")
		while read -r found; do
			if [ -z "${known[$found]:-}" ]; then
				known[$found]=yes
				todo+=("$found")
			fi
		done < <(apt-cache "${options[@]}" depends --no-recommends --no-suggests --no-conflicts --no-breaks \
			--no-replaces --no-enhances "$package" | sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}Depends: \(lib[a-z0-9.+-]*\|lua[a-z0-9.+-]*\|zlib1g\)$/\2/p')
	done
	printf '%s\n' "${!known[@]}"
}

for name in "${missing[@]}"; do
	read -r release server packages <<<"$(source_of "$name")"
	read -ra packages <<<"$packages"
	use "$release"
	mapfile -t needed < <(libraries "${packages[@]}")
	rm -rf "$work/debs" "$dir/$name" "$dir/$name.new"
	mkdir -p "$work/debs" "$dir/$name.new/root"
	(cd "$work/debs" && apt-get "${options[@]}" download "${packages[@]}" "${needed[@]}")
	for deb in "$work"/debs/*.deb; do
		dpkg-deb -x "$deb" "$dir/$name.new/root"
	done
	loader=$(cd "$dir/$name.new" && find root -name 'ld-linux*.so.*' -path '*-linux-gnu*' | head -n 1)
	[ -n "$loader" ] || die "the C library of $name has no dynamic loader"
	triplet=$(basename "$(dirname "$loader")")
	further=
	[ "$name" != mysql-next ] || further='--basedir="$root/usr"' # its messages and character sets
	cat >"$dir/$name.new/server" <<-EOF
		#!/bin/sh
		root=\${0%/*}/root
		exec "\${0%/*}/$loader" --library-path "\$root/usr/lib/$triplet:\$root/lib/$triplet" "\$root/$server" "\$@" $further
	EOF
	chmod 755 "$dir/$name.new/server"
	mv "$dir/$name.new" "$dir/$name"
	printf '%s: ' "$name"
	"$dir/$name/server" --version
done
