#!/usr/bin/env bash
# Installs Sealgate, or shows it: see --help.
set -euo pipefail
shopt -s inherit_errexit

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/lib/common.sh
. "$source_dir/scripts/lib/common.sh"
# shellcheck source=scripts/lib/gate.sh
. "$source_dir/scripts/lib/gate.sh"
# shellcheck source=scripts/lib/demo.sh
. "$source_dir/scripts/lib/demo.sh"
# shellcheck source=scripts/lib/repo.sh
. "$source_dir/scripts/lib/repo.sh"

usage() {
	cat <<'TXT'
Usage:
  scripts/install.sh --demo [--dir DIR] [--keep] [--programs DIR]
      Show everything with real pushes below one new directory. No root needed.

  scripts/install.sh --repo PATH... [options]
  scripts/install.sh --gitea ROOT --only OWNER/REPO... [options]
      Put the gate in front of existing bare repositories, as root.
      --gitea: ROOT is the directory of the server's repositories; the hook goes
      into hooks/pre-receive.d/ and hooks/post-receive.d/ of the named ones.

  scripts/install.sh --uninstall [--repo PATH... | --gitea ROOT --only OWNER/REPO...]
      Give repositories their earlier hooks back (all of them when none is named;
      the service and the programs go too, then). Records and keys stay.

Options:
  --mode record|warn|enforce   what a finding does (enforce); run again to change it
  --strict                     every branch is replayed before it is accepted
  --contact TEXT               whom messages tell people to ask
  --maintainer NAME=KEYFILE    may approve oracle changes; again for each person
  --seal | --no-seal           with or without a sealed tree on this machine (--seal);
                               without one, hookd judges by oracles/*.toml alone
  --no-replay                  hookd is never asked: protected paths and oracle files
                               are checked, nothing is run
  --prefix DIR                 programs                 (/usr/local/lib/sealgate)
  --etc DIR                    configuration and keys   (/etc/sealgate)
  --var DIR                    records, packets, seals  (/var/lib/sealgate)
  --git-user USER              who runs the hook        (the repository's owner)
  --hookd-user USER            who runs hookd           (sealgate; made when missing)
  --no-service                 do not set up hookd as a service
  --start                      without systemd: start hookd now, in the background
  --programs DIR               take the built programs from DIR (else: go build)
  --install-packages           install what is missing (apt-get)
  --dry-run                    print each step and change nothing
TXT
}

# programs_in DIR prints the absolute path of a directory with our programs.
programs_in() {
	local program
	for program in prereceive hookd git-oracle; do
		[[ -x $1/$program ]] || die "there is no program $1/$program" "go build -o DIR/ ./cmd/..."
	done
	(cd "$1" && pwd -P)
}

main() {
	local action="" dir="" keep=no install=no
	repo_defaults
	[[ $# -gt 0 ]] || { usage >&2; exit 64; }
	while [[ $# -gt 0 ]]; do
		case $1 in
		--help | -h) usage; exit 0 ;;
		--demo) action=${action:-demo} ;;
		--uninstall) action=uninstall ;;
		--keep) keep=yes ;;
		--install-packages) install=yes ;;
		--strict) opt_strict=yes ;;
		--seal) opt_seal=yes ;;
		--no-seal) opt_seal=no ;;
		--no-replay) opt_replay=no ;;
		--no-service) opt_service=no ;;
		--start) opt_start=yes ;;
		--dry-run) opt_dry_run=yes ;;
		--repo | --only)
			local list=$1
			[[ $# -ge 2 && $2 != --* ]] || usage_error "$1 needs a value"
			while [[ $# -ge 2 && $2 != --* ]]; do
				case $list in
				--repo) opt_repos+=("$2") ;;
				--only) opt_only+=("$2") ;;
				esac
				shift
			done
			;;
		--dir | --mode | --contact | --maintainer | --programs | --prefix | --etc | --var | --git-user | --hookd-user | --gitea)
			[[ $# -ge 2 && -n $2 ]] || usage_error "$1 needs a value"
			case $1 in
			--dir) dir=$2 ;;
			--mode) opt_mode=$2 ;;
			--contact) opt_contact=$2 ;;
			--maintainer) opt_maintainers+=("$2") ;;
			--prefix) opt_prefix=$2 ;;
			--etc) opt_etc=$2 ;;
			--var) opt_var=$2 ;;
			--git-user) opt_git_user=$2 ;;
			--hookd-user) opt_hookd_user=$2 ;;
			--gitea) opt_gitea=$2 ;;
			--programs) opt_programs=$2 ;;
			esac
			shift
			;;
		*) usage_error "unknown argument: $1" ;;
		esac
		shift
	done
	if [[ -n $opt_programs ]]; then opt_programs=$(programs_in "$opt_programs"); fi
	if [[ -z $action && (${#opt_repos[@]} -gt 0 || -n $opt_gitea) ]]; then action=install; fi
	case $action in
	demo)
		[[ ${#opt_repos[@]} == 0 && -z $opt_gitea ]] || usage_error "--demo makes a repository of its own; it takes no --repo"
		demo_main "$dir" "$keep" "$install"
		;;
	install) repo_install "$install" ;;
	uninstall) repo_uninstall "$install" ;;
	*) usage_error "nothing to do: --demo, --repo, --gitea or --uninstall" ;;
	esac
}

main "$@"
