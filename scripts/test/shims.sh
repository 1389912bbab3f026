#!/usr/bin/env bash
# The shims with a stand-in for prereceive: they pass everything on, run the
# hook that was there before, and refuse whatever is missing.
# shellcheck source=scripts/lib/testing.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/testing.sh"

server="$scratch/shop.git"
clone="$scratch/clone"
program="$scratch/pre receive"
log="$scratch/log"
git init -q --bare -b main "$server"
git init -q -b main "$clone"
echo 'version: 1' >"$scratch/gate.yaml"

# The stand-in writes down how it was called and does as $scratch/says says.
cat >"$program" <<-STANDIN
	#!/bin/sh
	exec >>$(sh_quote "$log")
	printf 'prereceive'
	printf ' <%s>' "\$@"
	printf ' PATH=%s\n' "\$PATH"
	cat
	exit "\$(cat $(sh_quote "$scratch/says"))"
STANDIN
chmod +x "$program"

# hooks BEFORE puts both shims into the server.
hooks() {
	local hook
	rm -f "$server"/hooks/*
	for hook in pre-receive post-receive; do
		fill_shim "$source_dir/hooks/bare/$hook" "prereceive=$program" "config=$scratch/gate.yaml" \
			"repo=3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21" "before=$1" "path=/usr/bin:/bin" >"$server/hooks/$hook"
		chmod +x "$server/hooks/$hook"
	done
	: >"$log"
	echo 0 >"$scratch/says"
}

# earlier HOOK EXIT puts a hook that was there before.
earlier() {
	cat >"$server/hooks/$1.before-sealgate" <<-HOOK
		#!/bin/sh
		echo "earlier $1 \$#" >>$(sh_quote "$log")
		cat >>$(sh_quote "$log")
		exit $2
	HOOK
	chmod +x "$server/hooks/$1.before-sealgate"
}

# attempt pushes a new commit; status and answer are what came of it.
attempt() {
	git -C "$clone" commit -q --allow-empty -m "a change"
	was=$(tip_of "$server" refs/heads/main)
	status=0
	answer=$(git -C "$clone" push "$server" HEAD:refs/heads/main 2>&1) || status=$?
	head=$(git -C "$clone" rev-parse HEAD)
	now=$(tip_of "$server" refs/heads/main)
}

moved() { same "$status $now" "0 $head"; }
stayed() { [[ $status != 0 ]] && same "$now" "$was"; }

hooks no
attempt
check "an accepted push moves the ref" moved
check "the program gets its configuration and the repository's id" contains "$(cat "$log")" \
	"prereceive <--config> <$scratch/gate.yaml> <--repo> <3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21> PATH=/usr/bin:/bin"
check "the program gets the ref updates" contains "$(cat "$log")" "$head refs/heads/main"
check "post-receive settles" contains "$(cat "$log")" "prereceive <settle> <--config>"

for code in 1 2 3 77; do
	hooks no
	echo $code >"$scratch/says"
	attempt
	check "exit code $code keeps the ref" stayed
done

hooks no
mv "$program" "$program.away"
attempt
check "a missing program keeps the ref" stayed
check "a missing program is named" contains "$answer" "error: the gate of this repository is not complete"
mv "$program.away" "$program"

hooks no
mv "$scratch/gate.yaml" "$scratch/gate.away"
attempt
check "a missing configuration keeps the ref" stayed
mv "$scratch/gate.away" "$scratch/gate.yaml"

hooks no
cp "$source_dir/hooks/bare/pre-receive" "$server/hooks/pre-receive"
attempt
check "a shim that nobody filled in keeps the ref" stayed

hooks yes
earlier pre-receive 0
earlier post-receive 0
attempt
check "with an earlier hook an accepted push moves the ref" moved
check "the earlier hook runs before the gate" same "$(grep -cE '^(earlier|prereceive)' "$log") $(head -n 1 "$log")" "4 earlier pre-receive 0"
check "both hooks get the same updates, and both once more afterwards" same "$(grep -cxF "$was $head refs/heads/main" "$log")" 4

hooks yes
earlier pre-receive 9
attempt
check "an earlier hook that refuses keeps the ref" stayed
check "the gate is not asked, then" lacks "$(cat "$log")" "prereceive"

hooks yes
attempt
check "an earlier hook that is gone keeps the ref" stayed

hooks yes
printf '#!/bin/sh\nexit 0\n' >"$server/hooks/pre-receive.before-sealgate"
chmod +x "$server/hooks/pre-receive.before-sealgate"
git -C "$clone" commit -q --allow-empty -m "many"
mapfile -t refs < <(for i in $(seq 1000); do echo "HEAD:refs/heads/many/$i"; done)
git -C "$clone" push -q "$server" "${refs[@]}" || true
check "1,000 refs pass an earlier hook that reads nothing" same "$(git --git-dir="$server" for-each-ref refs/heads/many | wc -l)" 1000

hooks yes
earlier post-receive 1
printf '#!/bin/sh\nexit 0\n' >"$server/hooks/pre-receive.before-sealgate"
chmod +x "$server/hooks/pre-receive.before-sealgate"
attempt
check "an earlier post-receive that fails does no harm" moved
mv "$program" "$program.away"
status=0
printf 'x\n' | "$server/hooks/post-receive" || status=$?
check "post-receive runs the earlier hook even without the program" same "$status" 1
mv "$program.away" "$program"

finish
