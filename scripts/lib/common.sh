# Shared by the scripts of this directory: words, quoting, required programs.
# shellcheck shell=bash

# die MESSAGE [HINT] ends the script: one fact, one next step.
die() {
	printf 'error: %s\n' "$1" >&2
	[[ $# -lt 2 ]] || printf 'hint: %s\n' "$2" >&2
	exit 1
}

usage_error() {
	printf 'error: %s\n' "$1" >&2
	printf 'hint: %s --help\n' "$0" >&2
	exit 64
}

# indent [MARK] prints standard input two columns in, behind MARK.
indent() { sed "s/^\(.\)/  ${1:-}\1/"; }

is_root() { [[ $(id -u) == 0 ]]; }

# sh_quote prints its argument as one word of a POSIX shell.
sh_quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# yaml_quote prints its argument as a YAML (and JSON) string. Control
# characters have no place in a path or a name of ours.
yaml_quote() {
	local text=$1
	[[ $text != *[[:cntrl:]]* ]] || die "control characters in $(printf '%q' "$text")"
	text=${text//\\/\\\\}
	printf '"%s"' "${text//\"/\\\"}"
}

# Package of each program we may need, on Debian and its descendants.
package_of() {
	case $1 in
	go) echo golang-go ;;
	git) echo git ;;
	bwrap) echo bubblewrap ;;
	python3) echo python3 ;;
	ssh-keygen | ssh) echo openssh-client ;;
	sshd) echo openssh-server ;;
	setpriv | flock) echo util-linux ;;
	shellcheck) echo shellcheck ;;
	useradd) echo passwd ;;
	gcc) echo gcc libc6-dev ;;
	node) echo nodejs ;;
	*) die "no package is known for the program $1" ;;
	esac
}

have() {
	command -v "$1" >/dev/null || [[ -x /usr/sbin/$1 ]]
}

# need_programs INSTALL PROGRAM… checks that all are there. With INSTALL=yes it
# installs the packages of those that are not, else it names them and ends.
need_programs() {
	local install=$1 program
	shift
	local -a missing=() packages=() words
	for program in "$@"; do
		if ! have "$program"; then
			missing+=("$program")
			read -ra words <<<"$(package_of "$program")"
			packages+=("${words[@]}")
		fi
	done
	[[ ${#missing[@]} -gt 0 ]] || return 0
	[[ $install == yes ]] ||
		die "missing: ${missing[*]}" "install ${packages[*]}, or run this again with --install-packages"
	install_packages "${packages[@]}"
	for program in "${missing[@]}"; do
		have "$program" || die "$program is still missing after installing its package"
	done
}

install_packages() {
	command -v apt-get >/dev/null ||
		die "--install-packages knows apt-get only" "install by hand: $*"
	local -a sudo=()
	if ! is_root; then
		command -v sudo >/dev/null || die "installing packages needs root" "run as root: apt-get install $*"
		sudo=(sudo)
	fi
	echo "installing packages: $*"
	local log
	log=$(mktemp)
	if ! { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
		"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		die "apt-get could not install $*"
	fi
	rm -f "$log"
}

# Go before 1.21 cannot fetch the toolchain that go.mod asks for.
need_go() {
	local version minor
	[[ -d /usr/local/go/bin ]] && PATH=$PATH:/usr/local/go/bin
	need_programs "$1" go
	version=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
	minor=${version#go1.}
	minor=${minor%%[!0-9]*}
	[[ $version == go1.* && ${minor:-0} -ge 21 ]] || [[ $version == go[2-9]* ]] ||
		die "$(command -v go) is $version; 1.21 or newer is needed" "take it from https://go.dev/dl/ and put it first on PATH"
}

# system_python prints a Python 3 whose files every account can read: a version
# manager below somebody's home would be closed to the sandbox's accounts.
system_python() {
	local candidate
	for candidate in /usr/bin/python3 "$(command -v python3 || true)"; do
		[[ -n $candidate && -x $candidate ]] || continue
		candidate=$("$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>/dev/null) || continue
		if ! is_root || as_uid 65534 test -x "$candidate"; then
			printf '%s\n' "$candidate"
			return 0
		fi
	done
	return 1
}

# as_uid UID COMMAND… runs a command with one number as its user and group.
as_uid() {
	local uid=$1
	shift
	setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$@"
}

# free_uids COUNT FIRST prints the first number of COUNT consecutive ids, at or
# above FIRST, that no account uses and that this system can map.
free_uids() {
	local count=$1 first=$2 id last inside outside length
	last=0
	while read -r inside outside length; do
		: "$outside"
		((inside + length > last)) && last=$((inside + length))
	done </proc/self/uid_map
	((first + count <= last)) || first=60100
	((first + count <= last)) || return 1
	for ((id = first; id < first + count; id++)); do
		if getent passwd "$id" >/dev/null || getent group "$id" >/dev/null; then
			first=$((id + 1))
			((first + count <= last)) || return 1
		fi
	done
	printf '%s\n' "$first"
}

# slot_uids KEY prints the first of 64 numbers for sandboxes. hookd wants a range
# to itself, so another KEY gets another range; the empty one the lowest.
slot_uids() {
	local offset=0
	[[ -z $1 ]] || offset=$(($(cksum <<<"$1" | cut -d ' ' -f 1) % 4096 * 64))
	free_uids 64 $((1879048192 + offset))
}

# build_binaries SOURCE DIR builds the three programs into DIR.
build_binaries() {
	local source=$1 dir=$2 log
	log=$(mktemp)
	if ! (cd "$source" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$dir/" ./cmd/prereceive ./cmd/hookd ./cmd/git-oracle) >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		die "the programs do not build"
	fi
	rm -f "$log"
}
