#!/usr/bin/env bash
# The installer in front of bare repositories: real pushes before, with and
# after the gate. Root gives each side an account of its own; an ordinary user
# plays all of them.
# shellcheck source=scripts/lib/testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/testing.sh"

shop="$scratch/srv/shop.git"
tool="$scratch/srv/tool.git"
etc="$scratch/etc"
var="$scratch/var"
programs=$(built_programs)
as_git=()
users=()
if is_root; then
	git_uid=$(free_uids 1 64300)
	as_git=(setpriv --reuid="$git_uid" --regid="$git_uid" --clear-groups --)
	users=(--hookd-user nobody)
fi
# shellcheck disable=SC2317 # called by the trap
stop() {
	[[ ! -f $var/hookd.pid ]] || kill "$(cat "$var/hookd.pid")" 2>/dev/null || true
	rm -rf "$scratch"
}
trap stop EXIT

as_git() { "${as_git[@]}" env HOME="$scratch/home" "$@"; }

install() {
	status=0
	answer=$("$source_dir/scripts/install.sh" --programs "$programs" --prefix "$scratch/lib" --etc "$etc" --var "$var" "${users[@]}" "$@" 2>&1) || status=$?
}

mkdir -p "$scratch/srv" "$scratch/home" "$scratch/clone" "$scratch/tmp"
! is_root || chown "$git_uid" "$scratch"/{srv,home,clone}
as_git git init -q --bare -b main "$shop"
as_git git init -q --bare -b trunk "$tool"
cd "$scratch/clone"
as_git git init -q -b main
as_git git commit -q --allow-empty -m "first"
as_git git push -q "$shop" HEAD:refs/heads/main HEAD:refs/heads/release/1.0
printf '#!/bin/sh\necho "the earlier hook has run" >&2\ncat >/dev/null\n' >"$scratch/earlier"
as_git cp "$scratch/earlier" "$shop/hooks/pre-receive"
as_git chmod 0750 "$shop/hooks/pre-receive"
ssh-keygen -q -t ed25519 -N '' -f "$scratch/key"

everything() { (find "$scratch/srv" "$etc" "$var" "$scratch/lib" -printf '%p %m %U %s %T@\n' 2>/dev/null || true) | sort; }

before=$(everything)
install --dry-run --repo "$shop" --maintainer "maria=$scratch/key.pub"
check "a dry run says what would be done" contains "$answer" "write $etc/gate.yaml"
check "a dry run changes nothing" same "$status $(everything)" "0 $before"

install --repo "$shop" --maintainer "maria=$scratch/key"
check "a private key is not taken for a public one" contains "$status $answer" "is not a public key"
install --repo "$scratch/clone"
check "a clone is no bare repository" contains "$status $answer" "is not a bare repository"

install --repo "$shop" "$tool" --no-replay --contact "the platform team" --maintainer "maria=$scratch/key.pub"
check "two repositories are installed" same "$status" 0
[[ $status == 0 ]] || printf '%s\n' "$answer"
gate=$(cat "$etc/gate.yaml")
check "HEAD is protected with its commit" contains "$gate" "baseline: $(tip_of "$shop" refs/heads/main)"
check "a release branch that exists is listed" contains "$gate" 'ref: "refs/heads/release/1.0"'
check "an unborn branch has the baseline none" contains "$gate" "baseline: none"
check "the doctor has the last word, and finds nothing" contains "$answer" "the gate is on"
chmod 0644 "$tool/hooks/pre-receive"
status=0
answer=$("$scratch/lib/prereceive" doctor --config "$etc/gate.yaml" 2>&1) || status=$?
check "the doctor finds a hook that git would not start" contains "$status $answer" "FAIL  pre-receive    hooks/pre-receive is not executable"
check "and leaves the records to the git user" same "$(find "$var/gate" ! -uid "$(stat -c %u "$shop")" | wc -l)" 0
chmod 0755 "$tool/hooks/pre-receive"
"$scratch/lib/prereceive" mode --config "$etc/gate.yaml" warn >/dev/null 2>&1
check "the mode is lowered by one command" contains "$(cat "$etc/gate.yaml")" "protected: {paths: warn, replay: enforce}"
check "root's changes of it are on record, as the git user's files" same "$(find "$var/gate" -name acts.jsonl ! -uid "$(stat -c %u "$shop")" | wc -l)" 0
"$scratch/lib/prereceive" mode --config "$etc/gate.yaml" enforce >/dev/null 2>&1
check "the earlier hook is kept as it was" same "$(stat -c %a "$shop/hooks/pre-receive.before-sealgate") $(cat "$shop/hooks/pre-receive.before-sealgate")" "750 $(cat "$scratch/earlier")"
check "refs/oracle/gate names the repository" contains "$(as_git git --git-dir="$shop" cat-file blob refs/oracle/gate)" '"schema": "sealgate-gate-v1"'

sed -i 's/^    threshold: 1$/    threshold: 1\n    harness: checks/' "$etc/gate.yaml"
install --repo "$shop"
check "what gate.yaml says is published" contains "$(as_git git --git-dir="$shop" cat-file blob refs/oracle/gate)" '"harness": "checks"'
install --repo "$tool"

first=$(everything)
install --repo "$shop" "$tool" --no-replay --contact "the platform team" --maintainer "maria=$scratch/key.pub"
check "a second run says that there is nothing to change" contains "$answer" "nothing to change"
check "a second run changes nothing" same "$(everything)" "$first"

# push REFSPEC from the clone; status, answer as above.
push() {
	status=0
	answer=$(as_git git push "$shop" "$1" 2>&1) || status=$?
}

echo one >file
as_git git add file
as_git git commit -q -m "honest"
push HEAD:refs/heads/main
check "an honest push passes" same "$status $(tip_of "$shop" refs/heads/main)" "0 $(as_git git rev-parse HEAD)"
check "the earlier hook runs" contains "$answer" "the earlier hook has run"
[[ $status == 0 ]] || printf '%s\n' "$answer"

mkdir oracles
echo "limit: 5" >oracles/limits
as_git git add oracles
as_git git commit -q -m "an oracle"
was=$(tip_of "$shop" refs/heads/main)
push HEAD:refs/heads/main
check "an unapproved oracle is refused" same "$status $(tip_of "$shop" refs/heads/main)" "1 $was"
check "the refusal names the contact" contains "$answer" "the platform team"
push HEAD:refs/heads/release/1.0
check "a release branch is protected too" lacks "$status" 0

install --repo "$shop" --mode warn
check "the mode is changed by one command" contains "$(cat "$etc/gate.yaml")" "protected: {paths: warn, replay: warn}"
check "the other repository keeps its mode" contains "$(cat "$etc/gate.yaml")" "protected: {paths: enforce, replay: enforce}"
push HEAD:refs/heads/main
check "in warn the same push passes" same "$status $(tip_of "$shop" refs/heads/main)" "0 $(as_git git rev-parse HEAD)"

install --uninstall --repo "$shop" --dry-run
check "a dry run of uninstall takes nothing away" contains "$(cat "$shop/hooks/pre-receive")" "sealgate shim"
install --uninstall --repo "$shop"
check "uninstall puts the earlier hook back" same "$status $(stat -c %a "$shop/hooks/pre-receive") $(cat "$shop/hooks/pre-receive")" "0 750 $(cat "$scratch/earlier")"
check "uninstall removes post-receive" test ! -e "$shop/hooks/post-receive"
check "uninstall leaves the other repository alone" contains "$(cat "$tool/hooks/pre-receive")" "sealgate shim"
echo two >>oracles/limits
as_git git commit -q -a -m "after the gate"
push HEAD:refs/heads/main
check "without the gate pushes pass as before" same "$status" 0
check "configuration and records stay" test -f "$etc/gate.yaml" -a -d "$var/gate"
id=$(grep -m 1 -A 1 'shop.git' "$etc/gate.yaml" | tail -n 1)
install --repo "$shop" --no-replay
check "installing again takes up the same id" contains "$(cat "$etc/gate.yaml")" "$id"

# With a sealed tree: hookd serves, the tree is closed to the git user.
install --repo "$tool" --seal --start
check "a sealed tree is begun and hookd serves" same "$status" 0
if [[ $status != 0 ]]; then
	printf '%s\n' "$answer"
else
	check "hookd's socket is there" test -S "$var/run/hookd.sock"
	check "the sealed tree is closed to others" same "$(stat -c %a "$var/seals/tool")" 700
	if is_root; then
		check "the git user cannot list it" lacks "$(as_git ls "$var/seals/tool" 2>&1 || true)" MANIFEST
		check "the git user cannot read the host key" lacks "$(as_git cat "$etc/hookd_host_ed25519" 2>&1 || true)" "PRIVATE"
	fi
	check "an empty sealed tree is recorded, not enforced" contains "$answer" "recorded, not enforced"
	push_tool() {
		status=0
		answer=$(as_git git push "$tool" "$1" 2>&1) || status=$?
	}
	as_git git checkout -q --orphan plain
	as_git git rm -q -r --cached oracles
	rm -rf oracles
	as_git git commit -q -m "a plain start"
	push_tool HEAD:refs/heads/trunk
	check "a push passes while the tree is empty" same "$status $(tip_of "$tool" refs/heads/trunk)" "0 $(as_git git rev-parse HEAD)"
	[[ $status == 0 ]] || printf '%s\n' "$answer"
	install --repo "$tool" --start
	check "a second run with a sealed tree changes nothing" contains "$answer" "nothing to change"
fi

# Without a sealed tree hookd judges by the repository's own invariants.
own="$scratch/srv/own.git"
as_git git init -q --bare -b main "$own"
install --repo "$own" --no-seal --start --contact "the platform team"
check "a repository without a sealed tree is installed" same "$status" 0
[[ $status == 0 ]] || printf '%s\n' "$answer"
check "nothing to judge by yet is said" contains "$answer" "oracles/*.toml cannot judge yet: replays are recorded, not enforced"
check "the next step names the places" contains "$answer" "$(printf -- '--repo %q --prefix %q --etc %q --var %q' "$own" "$scratch/lib" "$etc" "$var")"
check "gate.yaml has it replayed without a seal" contains "$(grep -A 24 -F "$own" "$etc/gate.yaml")" $'    seal: false\n    replay: true'
own_hookd() { grep -A 3 "name: own" "$etc/hookd.yaml"; }
check "hookd.yaml names no sealed tree for it" lacks "$(own_hookd)" "seal:"
check "and no sealed tree is begun" test ! -e "$var/seals/own"
push_own() {
	status=0
	answer=$(as_git git push "$own" "$1" 2>&1) || status=$?
}
push_own HEAD:refs/heads/main
check "a push passes while there is no invariant" same "$status $(tip_of "$own" refs/heads/main)" "0 $(as_git git rev-parse HEAD)"
[[ $status == 0 ]] || printf '%s\n' "$answer"
install --repo "$own" --no-seal --start
check "a second run without a sealed tree changes nothing" contains "$answer" "nothing to change"
install --repo "$own" --seal --start
check "a sealed tree is added later" contains "$status $(grep -B 1 "name: own" -A 3 "$etc/hookd.yaml")" "seal: \"$var/seals/own\""
check "and begun" test -f "$var/seals/own/MANIFEST.json"
install --repo "$own" --no-seal --start
check "and taken away again" lacks "$(grep -B 2 "name: own" -A 3 "$etc/hookd.yaml")" "seal:"

install --uninstall
check "uninstall without a name ends everything" same "$status" 0
check "hookd is stopped" test ! -e "$var/hookd.pid"
check "the programs are gone" test ! -e "$scratch/lib/prereceive"
check "no hook of ours is left" same "$(grep -lF 'sealgate shim' "$shop"/hooks/* "$tool"/hooks/* || true)" ""

finish
