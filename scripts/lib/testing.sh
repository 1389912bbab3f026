# Shared by scripts/test/*.sh.
# shellcheck shell=bash

set -euo pipefail
shopt -s inherit_errexit
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=scripts/lib/common.sh
. "$source_dir/scripts/lib/common.sh"
# shellcheck source=scripts/lib/gate.sh
. "$source_dir/scripts/lib/gate.sh"

unset "${!GIT_@}"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 LC_ALL=C.UTF-8
export GIT_AUTHOR_NAME=tester GIT_AUTHOR_EMAIL=tester@example.org
export GIT_COMMITTER_NAME=tester GIT_COMMITTER_EMAIL=tester@example.org

# A directory whose name every script has to quote.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sealgate-it's a test.XXXXXX")
chmod 0755 "$scratch"
trap 'rm -rf "$scratch"' EXIT

test_failures=0

# built_programs prints a directory with the programs: the one that test.sh has
# made for all scripts, or one of this script's own.
built_programs() {
	if [[ -z ${SEALGATE_E2E_PROGRAMS:-} ]]; then
		SEALGATE_E2E_PROGRAMS=$scratch/programs
		mkdir "$SEALGATE_E2E_PROGRAMS"
		build_binaries "$source_dir" "$SEALGATE_E2E_PROGRAMS"
	fi
	printf '%s' "$SEALGATE_E2E_PROGRAMS"
}

fail() {
	test_failures=$((test_failures + 1))
	printf 'FAIL: %s\n' "$*"
}

pass() { printf 'ok: %s\n' "$*"; }

# check WHAT COMMAND… passes where the command succeeds.
check() {
	local what=$1
	shift
	if "$@"; then pass "$what"; else fail "$what"; fi
}

same() { [[ $1 == "$2" ]] || { diff <(printf '%s\n' "$1") <(printf '%s\n' "$2") | head -n 20; return 1; }; }
contains() { [[ $1 == *"$2"* ]] || { printf '  not in: %s\n%s\n' "$2" "$1"; return 1; }; }
lacks() { [[ $1 != *"$2"* ]] || { printf '  is in: %s\n%s\n' "$2" "$1"; return 1; }; }

finish() {
	[[ $test_failures == 0 ]] || { echo "$test_failures failures"; exit 1; }
}

tip_of() { git --git-dir="$1" rev-parse --quiet --verify "$2" || echo none; }
