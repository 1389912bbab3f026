#!/usr/bin/env bash
# A Gitea or Forgejo repository without the server: its directory layout, a
# hook that runs everything in hooks/<name>.d/ as the server's own does, the
# server's own check beside ours, and the environment of its SSH and web
# pushes. A merge button is a push from a temporary clone.
# shellcheck source=scripts/lib/testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/testing.sh"

root="$scratch/gitea-repositories"
repo="$root/acme/shop.git"
programs=$(built_programs)
as_git=()
users=()
if is_root; then
	git_uid=$(free_uids 1 64300)
	as_git=(setpriv --reuid="$git_uid" --regid="$git_uid" --clear-groups --)
	users=(--hookd-user nobody)
fi
as_git() { "${as_git[@]}" env HOME="$scratch/home" "$@"; }

install() {
	status=0
	answer=$("$source_dir/scripts/install.sh" --programs "$programs" --prefix "$scratch/lib" --etc "$scratch/etc" --var "$scratch/var" "${users[@]}" "$@" 2>&1) || status=$?
}

mkdir -p "$root/acme" "$scratch/home" "$scratch/clone" "$scratch/web"
! is_root || chown -R "$git_uid" "$root" "$scratch"/{home,clone,web}
as_git git init -q --bare -b main "$repo"

# The server's hook: read everything once, hand it to each program of the
# directory in order of name, fail when one of them failed.
server_hook() {
	local name=$1
	mkdir -p "$repo/hooks/$name.d"
	cat >"$repo/hooks/$name" <<-HOOK
		#!/usr/bin/env bash
		input=\$(cat)
		bad=0
		for one in "\$(dirname "\$0")/$name.d"/*; do
			[ -f "\$one" ] && [ -x "\$one" ] || continue
			printf '%s\n' "\$input" | "\$one" "\$@" || bad=\$?
		done
		exit "\$bad"
	HOOK
	# The server's own check, which wants the variables that the server sets.
	cat >"$repo/hooks/$name.d/gitea" <<-'HOOK'
		#!/usr/bin/env bash
		cat >/dev/null
		[ -n "$GITEA_PUSHER_ID" ] || { echo "Gitea: not for direct pushes" >&2; exit 1; }
		[ "$GITEA_TEST_BRANCH_PROTECTION" != closed ] || { echo "Gitea: branch is protected" >&2; exit 1; }
	HOOK
	chmod 0755 "$repo/hooks/$name" "$repo/hooks/$name.d/gitea"
	! is_root || chown -R "$git_uid" "$repo/hooks"
}
server_hook pre-receive
server_hook post-receive
printf '#!/usr/bin/env bash\nexit 0\n' >"$repo/hooks/update"

server_env=(GITEA_REPO_USER_NAME=acme GITEA_REPO_NAME=shop GITEA_REPO_ID=7 GITEA_REPO_IS_WIKI=false
	GITEA_PUSHER_NAME=dana GITEA_PUSHER_EMAIL=dana@example.org GITEA_PUSHER_ID=3 GITEA_KEY_ID=5
	GITEA_DEPLOY_KEY_ID=0 GITEA_PR_ID=0 GITEA_IS_INTERNAL=false GITEA_ROOT_URL=https://git.example.org/)
over_ssh=("${server_env[@]}" "SSH_ORIGINAL_COMMAND=git-receive-pack 'acme/shop.git'" GIT_PROTOCOL=version=2)
by_button=("${server_env[@]}" GITEA_INTERNAL_PUSH=true GITEA_PR_ID=12 GIT_AUTHOR_NAME=Dana GIT_AUTHOR_EMAIL=dana@example.org
	GIT_COMMITTER_NAME=Dana GIT_COMMITTER_EMAIL=dana@example.org)

# push HOW DIR REFSPEC…: HOW is ssh or button.
push() {
	local how=$1 dir=$2
	local -a environment=("${over_ssh[@]}")
	[[ $how == ssh ]] || environment=("${by_button[@]}")
	shift 2
	status=0
	answer=$(cd "$dir" && as_git env "${environment[@]}" git push "$repo" "$@" 2>&1) || status=$?
}

clone="$scratch/clone"
cd "$clone"
as_git git init -q -b main
mkdir oracles
echo "limit: 5" >oracles/limits
echo one >code
as_git git add .
as_git git commit -q -m "first"
push ssh "$clone" HEAD:refs/heads/main
check "a push over SSH works before the gate" same "$status" 0

install --gitea "$root" --only acme/shop --no-replay
[[ $status == 0 ]] || printf '%s\n' "$answer"
check "the gate is installed" same "$status" 0
check "the server's hooks stay as they are" lacks "$(cat "$repo/hooks/pre-receive" "$repo/hooks/pre-receive.d/gitea")" sealgate
check "ours stands beside them" test -x "$repo/hooks/pre-receive.d/sealgate" -a -x "$repo/hooks/post-receive.d/sealgate"
install --gitea "$root" --only Acme/Shop --no-replay
check "a second run changes nothing" contains "$answer" "nothing to change"

echo two >code
as_git git commit -q -a -m "honest"
push ssh "$clone" HEAD:refs/heads/main
[[ $status == 0 ]] || printf '%s\n' "$answer"
check "an honest push over SSH passes" same "$status $(tip_of "$repo" refs/heads/main)" "0 $(as_git git rev-parse HEAD)"

# A pull request: pushed to a branch, merged by the button.
as_git git checkout -q -b feature
echo three >code
as_git git commit -q -a -m "feature"
push ssh "$clone" HEAD:refs/heads/feature
check "a topic branch passes" same "$status" 0
as_git git clone -q "$repo" "$scratch/web/merge-12"
(cd "$scratch/web/merge-12" && as_git git merge -q --no-ff -m "Merge pull request 12" origin/feature)
push button "$scratch/web/merge-12" HEAD:refs/heads/main
[[ $status == 0 ]] || printf '%s\n' "$answer"
check "the merge button passes" same "$status $(tip_of "$repo" refs/heads/main)" "0 $(as_git git -C "$scratch/web/merge-12" rev-parse HEAD)"

(cd "$scratch/web/merge-12" && echo "limit: 50" >oracles/limits && as_git git commit -q -a --amend -m "Merge pull request 13")
was=$(tip_of "$repo" refs/heads/main)
push button "$scratch/web/merge-12" +HEAD:refs/heads/main
check "a merge button that changes an oracle is refused" same "$status $(tip_of "$repo" refs/heads/main)" "1 $was"
check "a web page gets no carriage return" lacks "$answer" $'remote: \r'

push ssh "$clone" HEAD:refs/pull/12/head
check "the server's own refs are not refused" same "$status" 0

over_ssh+=(GITEA_TEST_BRANCH_PROTECTION=closed)
echo four >code
as_git git commit -q -a -m "four"
was=$(tip_of "$repo" refs/heads/main)
push ssh "$clone" +HEAD:refs/heads/main
check "a refusal of the server's own check counts" same "$status $(tip_of "$repo" refs/heads/main)" "1 $was"

as_git git init -q --bare "$root/acme/plain.git"
install --gitea "$root" --only acme/plain --no-replay
check "a repository without the server's hooks is refused" contains "$answer" "does not run pre-receive.d"

install --uninstall --gitea "$root" --only acme/shop
check "uninstall removes ours alone" same "$(ls "$repo/hooks/pre-receive.d")" gitea

finish
