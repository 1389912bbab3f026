#!/usr/bin/env bash
# Runs every check of the project: see --help.
set -euo pipefail
shopt -s inherit_errexit

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/lib/common.sh
. "$source_dir/scripts/lib/common.sh"

usage() {
	cat <<'TXT'
Usage: scripts/test.sh [--install-packages] [--quick]

Formatting, vet, linters, unit and end-to-end tests, the race detector on the
packages with goroutines, and the installer's and the demo's own tests. Started
by root it runs the Go tests as root and once more as an ordinary user: hooks
run as either.

  --install-packages  install what is missing (apt-get, and golangci-lint)
  --quick             without linters, race detector and the second user
TXT
}

# Built once for every version; `go install` of it takes minutes when cold.
readonly lint_version=v2.15.0

# Packages in which goroutines meet.
readonly race_packages=(internal/proc internal/wire internal/runner internal/candidate internal/judge internal/sandbox internal/sandbox/plain internal/packetstore)

# Packages that have nothing to do with who runs them: forms of bytes, words, rules,
# the drivers, whose sandboxes other packages try as either account, and the sandbox,
# whose tests root runs again as ordinary users with and without capabilities.
readonly same_for_all=(policy internal/gate internal/approval internal/story internal/sandbox internal/sandbox/plain internal/arch internal/oracle internal/message internal/packet internal/report internal/trailer internal/candidate/drivertest)

# Packages that take longest: begun first, so that none is left running alone.
readonly long=(./internal/e2e ./internal/cheat ./internal/faults ./cmd/git-oracle ./cmd/prereceive)

# What every run of the tests is built with. Vet has a section of its own, which finds
# more than go test's; nobody debugs these binaries.
# A package more than there are processors: many wait for hookd or for a deadline.
readonly test_flags=(-vet=off "-ldflags=-s -w" -timeout 60m -v -p "$(($(nproc) + 1))")

failed=()

main() {
	local install=no quick=no
	while [[ $# -gt 0 ]]; do
		case $1 in
		--install-packages) install=yes ;;
		--quick) quick=yes ;;
		--help | -h) usage; exit 0 ;;
		*) usage_error "unknown argument: $1" ;;
		esac
		shift
	done
	cd "$source_dir"
	need_go "$install"
	need_programs "$install" git python3 node bwrap ssh ssh-keygen sshd setpriv flock shellcheck
	[[ $quick == yes ]] || need_programs "$install" gcc
	unset "${!GIT_@}"
	# Everything but the race detector's run is built in one way, which is also the
	# programs': nothing is compiled twice.
	GOFLAGS="$(go env GOFLAGS) -trimpath"
	export GOFLAGS CGO_ENABLED=0
	programs=$(mktemp -d "${TMPDIR:-/tmp}/sealgate-programs.XXXXXX")
	trap 'rm -rf "$programs"' EXIT
	chmod 0755 "$programs"
	export SEALGATE_E2E_PROGRAMS=$programs

	section "gofmt" check_format
	section "go build" build_binaries "$source_dir" "$programs"
	section "go vet" go vet ./...
	section "shellcheck" check_shell
	[[ $quick == yes ]] || section "golangci-lint" check_lint "$install"
	section "go test, as $(id -un)" test_all
	[[ $quick == yes ]] || section "go test -race" race
	if [[ $quick == no ]] && is_root; then
		section "go test, as an ordinary user" test_as_user
	fi
	local script
	section "go build, for other systems" build_for_others
	for script in scripts/test/*.sh; do
		section "$script" bash "$script"
	done
	summary
}

# section TITLE COMMAND… runs one check; a failure is remembered, not final.
section() {
	local title=$1 started=$SECONDS status
	shift
	printf '\n=== %s\n' "$title"
	# Not behind ||, where errexit would not count inside.
	set +e
	(set -e; "$@")
	status=$?
	set -e
	if [[ $status == 0 ]]; then
		printf -- '--- ok: %s (%s s)\n' "$title" "$((SECONDS - started))"
	else
		printf -- '--- FAILED: %s (status %s, %s s)\n' "$title" "$status" "$((SECONDS - started))"
		failed+=("$title")
	fi
}

summary() {
	echo
	if [[ ${#failed[@]} == 0 ]]; then
		echo "all checks passed ($SECONDS s)"
		return
	fi
	printf 'failed: %s\n' "${failed[@]}"
	exit 1
}

# tracked prints the project's files, those not yet committed included.
tracked() { git ls-files -z --cached --others --exclude-standard -- "$@"; }

check_format() {
	local bad
	bad=$(tracked '*.go' | xargs -0 gofmt -l)
	[[ -z $bad ]] || { printf 'not formatted: %s\n' "$bad"; return 1; }
}

# git oracle runs where maintainers and contributors work; the servers' programs on
# Linux.
readonly systems=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)

build_for_others() {
	local system
	for system in "${systems[@]}"; do
		CGO_ENABLED=0 GOOS=${system%/*} GOARCH=${system#*/} go build -ldflags="-s -w" -o /dev/null ./cmd/git-oracle
		if [[ $system == */amd64 ]]; then
			CGO_ENABLED=0 GOOS=${system%/*} GOARCH=amd64 go vet ./cmd/git-oracle
		fi
		echo "git-oracle: $system"
	done
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -ldflags="-s -w" -o /dev/null ./cmd/prereceive
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -ldflags="-s -w" -o /dev/null ./cmd/hookd
	echo "prereceive, hookd: linux/arm64"
}

check_shell() {
	local file
	local -a files=()
	while IFS= read -r -d '' file; do
		[[ -f $file ]] || continue
		case $(head -n 1 "$file") in
		'#!/bin/sh'* | '#!/usr/bin/env bash'* | '#!/bin/bash'* | '# Shared by the scripts'*) files+=("$file") ;;
		esac
	done < <(tracked hooks scripts bench .ci)
	files+=(scripts/lib/*.sh)
	shellcheck -x "${files[@]}"
	echo "${#files[@]} scripts"
}

check_lint() {
	local tools=${XDG_CACHE_HOME:-$HOME/.cache}/sealgate-tools/golangci-lint-$lint_version
	if [[ ! -x $tools/golangci-lint ]]; then
		[[ $1 == yes ]] || die "missing: golangci-lint $lint_version" "run this again with --install-packages"
		echo "building golangci-lint $lint_version (once; minutes)"
		GOBIN=$tools GOFLAGS='' go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$lint_version"
	fi
	"$tools/golangci-lint" run ./...
}

race() {
	local package
	local -a present=()
	for package in "${race_packages[@]}"; do
		[[ ! -d $package ]] || present+=("./$package")
	done
	# -short leaves out tests that ask one process a question at a time: hundreds of
	# starts of an interpreter, in which the detector has nothing to find.
	CGO_ENABLED=1 go test -vet=off -timeout 60m -race -short "${present[@]}"
}

# told runs go test -v and passes on what a reader wants of it: a package that
# fails with all that it printed, of the others what they tried and how long it took.
told() {
	"$@" | awk '
		{ held[n++] = $0 }
		/^tried: / { tried[t++] = $0 }
		/^ *--- PASS: Fuzz[A-Za-z0-9_]*\// { seeds++ }
		/^(ok  |\?   |FAIL)\t/ {
			if (/^FAIL/) for (i = 0; i < n; i++) print held[i]
			else {
				print
				for (i = 0; i < t; i++) print "    " tried[i]
				if (seeds) print "    tried: " seeds " seeds of fuzz targets"
			}
			n = t = seeds = 0
			fflush()
		}
		END { for (i = 0; i < n; i++) print held[i] }'
}

test_all() { told go test "${test_flags[@]}" "${long[@]}" ./...; }

# test_as_user runs the Go tests on a copy of the tree as an account that is made
# for it (sshd and ssh-keygen want one with a name). The account's binaries are those
# that root's run has compiled. -short leaves out what has just run as root and does
# not depend on the account.
test_as_user() {
	local dir user=sealgate-test same
	local -a packages
	same=$(IFS='|'; echo "${same_for_all[*]}")
	mapfile -t packages < <(go list "${long[@]}" ./... | awk '!seen[$0]++' | grep -vE "/($same)\$")
	dir=$(mktemp -d "${TMPDIR:-/tmp}/sealgate-test.XXXXXX")
	chmod 0755 "$dir"
	mkdir "$dir/tree" "$dir/home" "$dir/tmp"
	if id "$user" >/dev/null 2>&1; then
		die "there is an account $user already" "a run that was cut off left it: userdel $user"
	fi
	useradd --system --no-create-home --home-dir "$dir/home" --shell /bin/bash "$user"
	# shellcheck disable=SC2064 # the values of now
	trap "userdel '$user'; chmod -R u+w '$dir' && rm -rf '$dir'" EXIT
	tracked . | tar --null --files-from=- --create --ignore-failed-read 2>/dev/null | tar -x -C "$dir/tree"
	chown -R "$user:" "$dir/tree" "$dir/home" "$dir/tmp"
	# go test lays its binaries into a directory that is closed to others.
	cat >"$dir/as-user" <<-RUN
		#!/bin/sh
		chmod go+rx "\$(dirname "\$(dirname "\$1")")"
		exec setpriv --reuid=$user --regid=$user --clear-groups env -i PATH=$(sh_quote "$PATH") HOME=$dir/home TMPDIR=$dir/tmp \\
			CI=$(sh_quote "${CI:-}") LC_ALL=C.UTF-8 SEALGATE_TESTED_AS_ROOT=1 SEALGATE_E2E_PROGRAMS=$programs "\$@"
	RUN
	chmod 0755 "$dir/as-user"
	cd "$dir/tree"
	GOFLAGS="$GOFLAGS -buildvcs=false" told go test -exec "$dir/as-user" -short -count=1 "${test_flags[@]}" "${packages[@]}"
}

main "$@"
