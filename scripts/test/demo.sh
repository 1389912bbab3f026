#!/usr/bin/env bash
# The demo must hold what it shows: as who runs this and, when that is root,
# once more as an ordinary user.
# shellcheck source=scripts/lib/testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/testing.sh"

# running DIR prints the processes whose program lies below DIR.
running() {
	local process program
	for process in /proc/[0-9]*; do
		program=$(readlink "$process/exe" 2>/dev/null) || continue
		[[ $program != "$1/"* ]] || echo "$process $program"
	done
}

status=0
answer=$("$source_dir/scripts/install.sh" --demo --dir "$scratch/a demo" 2>&1) || status=$?
check "the demo ends well, as $(id -un)" same "$status" 0
[[ $status == 0 ]] || printf '%s\n' "$answer"
check "all eight scenes ran" same "$(grep -c '^  as it should ' <<<"$answer")" 8
check "it is plain ASCII" same "$(LC_ALL=C tr -d '\n -~' <<<"$answer")" ""
check "hookd has ended" same "$(running "$scratch/a demo")" ""

status=0
answer=$("$source_dir/scripts/install.sh" --demo --dir "$scratch/a demo" 2>&1) || status=$?
check "a directory that is in use is left alone" contains "$status $answer" "is not empty"

if is_root; then
	uid=$(id -u nobody) # ssh-keygen works only for an account with a name
	programs=$(built_programs)
	mkdir "$scratch/tree" "$scratch/home"
	(cd "$source_dir" && git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create --ignore-failed-read 2>/dev/null) |
		tar -x -C "$scratch/tree"
	chmod -R go+rX "$scratch/tree" "$programs"
	chown "$uid:$uid" "$scratch/home"
	status=0
	answer=$(cd / && as_uid "$uid" env -i PATH="$PATH" HOME="$scratch/home" TMPDIR=/tmp \
		"$scratch/tree/scripts/install.sh" --demo --programs "$programs" --dir "$scratch/home/a demo" 2>&1) || status=$?
	check "the demo ends well, as an ordinary user" same "$status" 0
	[[ $status == 0 ]] || printf '%s\n' "$answer"
fi

finish
