# The demo: a Git server, a developer, a maintainer and a replay host below one
# directory, and real pushes between them.
# shellcheck shell=bash
# shellcheck disable=SC2154 # source_dir is install.sh's

# demo_main DIR KEEP INSTALL: DIR empty is a new directory below TMPDIR.
demo_main() {
	local keep=$2 install=$3
	demo_surprises=0
	demo_pid=""
	demo_rows=()
	demo_started=$SECONDS
	unset_git_environment
	[[ -n $opt_programs ]] || need_go "$install"
	need_programs "$install" git bwrap python3 ssh-keygen setpriv
	demo_python=$(system_python) || die "every python3 here is closed to other accounts" "install the package python3 (run this again with --install-packages)"
	demo_dir=$(demo_directory "$1")
	demo_accounts
	trap 'demo_end_hookd' EXIT
	trap 'exit 130' INT TERM

	demo_intro
	demo_build
	demo_server
	demo_seal
	demo_start_hookd
	note "the sealed tree is locked on the replay host; hookd has tried to break out of its"
	note "own sandbox, could not, and serves"
	demo_show_who_reads

	scene_honest
	scene_oracle_change
	scene_invariant
	scene_broken
	scene_fixture
	scene_freeze
	scene_merge
	scene_stopped
	demo_outro "$keep"
}

unset_git_environment() {
	local name
	for name in "${!GIT_@}"; do unset "$name"; done
}

# As root, the people and their server are nobody (ssh-keygen signs only for an
# account that has a name) and hookd gets a free number; an ordinary user plays
# all of them.
demo_accounts() {
	local caps="+setuid,+setgid,+kill"
	demo_git_uid=$(id -u)
	demo_hookd_uid=$(id -u)
	demo_slot_uid=""
	as_people=()
	as_hookd=()
	if ! is_root; then
		getent passwd "$demo_git_uid" >/dev/null ||
			die "your account ($demo_git_uid) has no name, and ssh-keygen makes no key without one" "run the demo as a user of this system"
		return 0
	fi
	demo_git_uid=$(id -u nobody) || die "this system has no account nobody" "run the demo as an ordinary user"
	demo_hookd_uid=$(free_uids 1 64100) || die "no free account number for the demo"
	as_people=(setpriv --reuid="$demo_git_uid" --regid="$(id -g nobody)" --clear-groups --)
	as_hookd=(setpriv --reuid="$demo_hookd_uid" --regid="$demo_hookd_uid" --clear-groups)
	demo_slot_uid=$(slot_uids "$demo_dir") || demo_slot_uid=""
	if [[ -n $demo_slot_uid ]]; then
		as_hookd+=(--inh-caps="$caps" --ambient-caps="$caps" --bounding-set="-all,$caps")
	fi
	as_hookd+=(--)
}

demo_directory() {
	local dir=$1
	if [[ -z $dir ]]; then
		dir=$(mktemp -d "${TMPDIR:-/tmp}/sealgate-demo.XXXXXX")
	else
		mkdir -p "$dir" || die "make the directory $dir"
		[[ -z $(ls -A "$dir") ]] || die "$dir is not empty" "name a new directory with --dir"
	fi
	chmod 0755 "$dir"
	dir=$(cd "$dir" && pwd -P)
	if is_root && ! as_uid 65534 test -x "$dir"; then
		die "other accounts cannot reach $dir" "as root, name a directory that everybody may pass through"
	fi
	printf '%s\n' "$dir"
}

# --- words ---------------------------------------------------------------

note() { printf '  %s\n' "$*"; }

demo_intro() {
	cat <<-TXT
		Sealgate demo: a Git server, a developer, a maintainer and a replay host, with
		real pushes between them. All of it is below
		  $demo_dir

	TXT
}

# scene TITLE, then lines of story from standard input.
scene() {
	demo_scene=$1
	demo_scene_ok=yes
	printf '\n== %s %s\n' "$1" "$(printf '=%.0s' $(seq 1 $((74 - ${#1}))))"
	indent
}

say() { printf '\n  %s\n' "$*"; }

scene_end() {
	if [[ $demo_scene_ok == yes ]]; then
		demo_rows+=("  as it should   $demo_scene")
	else
		demo_rows+=("  SURPRISE       $demo_scene")
	fi
}

surprise() {
	demo_surprises=$((demo_surprises + 1))
	demo_scene_ok=no
	printf '  SURPRISE: %s\n' "$*"
}

show_command() { printf '  $ %s\n' "$*"; }

# --- people --------------------------------------------------------------

# in_clone WHO COMMAND… runs a command in the clone of WHO, as WHO.
in_clone() {
	local who=$1
	shift
	(cd "$demo_dir/$who" && exec "${as_people[@]}" env -i PATH="$demo_dir/bin:$PATH" HOME="$demo_dir/home/$who" \
		LC_ALL=C.UTF-8 GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_EDITOR=true PYTHONDONTWRITEBYTECODE=1 "$@")
}

developer() { in_clone developer "$@"; }
maintainer() { in_clone maintainer "$@"; }

# on_git_host COMMAND… runs an administration command as the server's account.
on_git_host() {
	(cd "$demo_dir/git-host" && exec "${as_people[@]}" env -i PATH="$demo_dir/bin:$PATH" HOME="$demo_dir/home/server" LC_ALL=C.UTF-8 "$@")
}

# on_replay_host COMMAND… runs an administration command as hookd's user.
on_replay_host() {
	(cd "$demo_dir/replay-host" && exec "${as_hookd[@]}" env -i PATH="$demo_dir/bin:$PATH" HOME="$demo_dir/replay-host" LC_ALL=C.UTF-8 "$@")
}

tip() { git_on_server rev-parse --quiet --verify "$1^{commit}" || echo none; }

git_on_server() {
	"${as_people[@]}" env -i PATH="$PATH" HOME="$demo_dir/home/server" GIT_CONFIG_NOSYSTEM=1 git --git-dir="$demo_dir/git-host/parcel.git" "$@"
}

commit() {
	developer git add -A
	developer git commit -q -m "$1"
}

# push WHAT REF REFSPEC: WHAT is "moves" or "stays", what REF must do. Shows
# the command and what the server answered; keeps that in demo_answer.
push() {
	local what=$1 ref=$2 refspec=$3 before after status=0
	before=$(tip "$ref")
	show_command "git push origin $refspec"
	demo_answer=$(developer git push --no-progress origin "$refspec" 2>&1) || status=$?
	grep -E '^remote: |^ [!*+] |^   [0-9a-f]+\.\.' <<<"$demo_answer" | sed -E 's/ +$//; s/^/  /' || true
	after=$(tip "$ref")
	case $what in
	moves)
		if [[ $before != "$after" && $status == 0 && $after == "$(developer git rev-parse "${refspec%%:*}")" ]]; then
			note "=> $ref moved to ${after:0:7}"
		else
			surprise "$ref should have moved (git push: $status); it is at $after"
			indent "  | " <<<"$demo_answer"
		fi
		;;
	stays)
		if [[ $before == "$after" && $status != 0 ]]; then
			note "=> $ref did not move: ${after:0:7}"
		else
			surprise "$ref should not have moved (git push: $status): $before, $after"
			indent "  | " <<<"$demo_answer"
		fi
		;;
	esac
}

# answered TEXT: the answer to the last push must say this.
answered() {
	[[ $demo_answer == *"$1"* ]] || surprise "the answer does not say \"$1\""
}

# said_nothing_sealed: no byte of a fixture and no name of a property or fixture.
said_nothing_sealed() {
	local word
	for word in counter express price_list heavier 731 4999 1740 29999 5985; do
		[[ $demo_answer != *"$word"* ]] || surprise "the answer shows \"$word\", which is sealed"
	done
}

# --- setting up ----------------------------------------------------------

demo_build() {
	local started=$SECONDS
	mkdir -p "$demo_dir/bin"
	if [[ -n $opt_programs ]]; then
		cp "$opt_programs"/{prereceive,hookd,git-oracle} "$demo_dir/bin/"
		return
	fi
	build_binaries "$source_dir" "$demo_dir/bin"
	note "prereceive, hookd and git-oracle are built ($((SECONDS - started)) s)"
}

demo_server() {
	local who server=$demo_dir/git-host hook value
	mkdir -p "$server/state" "$demo_dir"/home/{server,developer,maintainer} "$demo_dir"/{developer,maintainer}
	for who in developer maintainer; do
		cat >"$demo_dir/home/$who/.gitconfig" <<-CONFIG
			[user]
				name = $who
				email = $who@example.org
			[init]
				defaultBranch = main
			[advice]
				pushUpdateRejected = false
			[merge]
				stat = false
		CONFIG
	done
	mkdir -p "$demo_dir/home/maintainer/.ssh"
	ssh-keygen -q -t ed25519 -N '' -C maintainer -f "$demo_dir/home/maintainer/.ssh/id_ed25519"
	ssh-keygen -q -t ed25519 -N '' -C gate -f "$server/gate_ed25519"
	mkdir -p "$demo_dir/replay-host"
	ssh-keygen -q -t ed25519 -N '' -C hookd -f "$demo_dir/replay-host/host_ed25519"
	cat >>"$demo_dir/home/maintainer/.gitconfig" <<-CONFIG
		[gpg]
			format = ssh
	CONFIG
	maintainer_key_setting "$demo_dir/home/maintainer"
	demo_own

	cp -R "$source_dir/scripts/demo/repo/." "$demo_dir/developer/"
	demo_own
	git_on_server init -q --bare --initial-branch=main "$server/parcel.git"
	developer git init -q
	developer git remote add origin "$server/parcel.git"
	commit "Price list of parcels"
	developer git push -q origin HEAD:refs/heads/main
	developer git fetch -q origin
	developer git branch -q --set-upstream-to=origin/main
	maintainer git clone -q "$server/parcel.git" .

	demo_id=$(cat /proc/sys/kernel/random/uuid)
	gate_yaml >"$server/gate.yaml"
	signers_line maintainer "$(cat "$demo_dir/home/maintainer/.ssh/id_ed25519.pub")" >"$server/maintainers"
	: >"$server/revoked_keys"
	: >"$server/agents"
	for hook in pre-receive post-receive; do
		fill_shim "$source_dir/hooks/bare/$hook" "prereceive=$demo_dir/bin/prereceive" "config=$server/gate.yaml" \
			"repo=$demo_id" "before=no" "path=$(hook_path)" >"$server/parcel.git/hooks/$hook"
		chmod 0755 "$server/parcel.git/hooks/$hook"
	done
	demo_own
	value=$(on_git_host prereceive publish --config "$server/gate.yaml" --repo "$demo_id" | git_on_server hash-object -w --stdin)
	git_on_server update-ref refs/oracle/gate "$value"
	quiet on_git_host prereceive adopt --config "$server/gate.yaml" --repo "$demo_id" refs/heads/main
	note "the Git server has parcel.git with the gate's hook; two people have cloned it"
}

# demo_own gives the files to their accounts (root only).
demo_own() {
	is_root || return 0
	chown -R "$demo_git_uid:$(id -g nobody)" "$demo_dir"/{git-host,home,developer,maintainer}
	chown -R "$demo_hookd_uid:$demo_hookd_uid" "$demo_dir/replay-host"
}

maintainer_key_setting() {
	cat >>"$1/.gitconfig" <<-CONFIG
		[user]
			signingKey = $(yaml_quote "$1/.ssh/id_ed25519.pub")
	CONFIG
}

gate_yaml() {
	local server=$demo_dir/git-host
	cat <<-YAML
		version: 1
		state: $(yaml_quote "$server/state")
		hookd:
		  address: $(yaml_quote "unix:$(demo_socket)")
		  host_key: $(yaml_quote "$(public_key "$demo_dir/replay-host/host_ed25519.pub")")
		  client_key: $(yaml_quote "$server/gate_ed25519")
		repositories:
		  - path: $(yaml_quote "$server/parcel.git")
		    id: $demo_id
		    contact: the demo's maintainer
		    protected:
		      - ref: refs/heads/main
		        baseline: $(tip refs/heads/main)
		      - pattern: refs/heads/release/**
		    maintainers: $(yaml_quote "$server/maintainers")
		    revoked_keys: $(yaml_quote "$server/revoked_keys")
		    agents: $(yaml_quote "$server/agents")
		    threshold: 1
		    seal: true
		    replay: true
	YAML
}

# A Unix socket's path has room for 107 bytes.
demo_socket() {
	local socket=$demo_dir/replay-host/run/hookd.sock
	if [[ ${#socket} -gt 100 ]]; then
		socket=/tmp/sealgate-demo-$(printf '%s' "$demo_dir" | cksum | tr -d ' ').sock
	fi
	printf '%s' "$socket"
}

hookd_yaml() {
	local replay=$demo_dir/replay-host
	cat <<-YAML
		version: 1
		data: $(yaml_quote "$replay/data")
		listen: [$(yaml_quote "unix:$(demo_socket)")]
		host_key: $(yaml_quote "$replay/host_ed25519")
		clients:
		  - {key: $(yaml_quote "$(public_key "$demo_dir/git-host/gate_ed25519.pub")"), role: gate, repositories: [$demo_id]}
	YAML
	if [[ -n $demo_slot_uid ]]; then
		cat <<-YAML
			sandbox:
			  uids: {first: $demo_slot_uid, count: 64}
		YAML
	fi
	cat <<-YAML
		workers: 2
		repositories:
		  - id: $demo_id
		    name: parcel
		    seal: $(yaml_quote "$replay/sealed")
		    python: $(yaml_quote "$demo_python")
		    disclose: lane
	YAML
}

demo_seal() {
	local replay=$demo_dir/replay-host sample=$source_dir/scripts/demo/sealed name
	mkdir -p "$replay/run" "$replay/data"
	hookd_yaml >"$replay/hookd.yaml"
	demo_own
	chmod 0711 "$replay/data"
	chmod 0755 "$replay" "$replay/run"
	mkdir "$replay/inbox"
	cp -R "$sample/." "$replay/inbox/"
	demo_own
	quiet on_replay_host hookd seal init --config hookd.yaml --repo parcel
	for name in counter express; do
		quiet on_replay_host hookd seal add-fixture --config hookd.yaml --repo parcel "$name" "inbox/fixtures/$name.json"
	done
	for name in p_price_list p_heavier_costs_no_less; do
		quiet on_replay_host hookd seal new-property --config hookd.yaml --repo parcel "$name"
		on_replay_host cp "inbox/properties/$name.py" "sealed/properties/$name.py"
	done
	quiet on_replay_host hookd seal lock --config hookd.yaml --repo parcel --parent "$(tip refs/heads/main)"
	rm -r "$replay/inbox"
}

# quiet COMMAND… shows what a command printed only when it fails.
quiet() {
	local out
	out=$("$@" 2>&1) && return 0
	printf '%s\n' "$out" | tail -n 20 >&2
	die "this step failed: ${*:1:8}"
}

demo_start_hookd() {
	local replay=$demo_dir/replay-host socket try
	socket=$(demo_socket)
	rm -f "$socket"
	(cd "$replay" && exec "${as_hookd[@]}" env -i PATH="$PATH" HOME="$replay" LC_ALL=C.UTF-8 \
		"$demo_dir/bin/hookd" serve --config "$replay/hookd.yaml") >>"$demo_dir/hookd.log" 2>&1 </dev/null &
	demo_pid=$!
	for ((try = 0; try < 300; try++)); do
		[[ ! -S $socket ]] || return 0
		kill -0 "$demo_pid" 2>/dev/null || break
		sleep 0.1
	done
	tail -n 20 "$demo_dir/hookd.log" >&2
	die "hookd does not serve; its log is $demo_dir/hookd.log"
}

demo_end_hookd() {
	[[ -n $demo_pid ]] || return 0
	kill "$demo_pid" 2>/dev/null || true
	wait "$demo_pid" 2>/dev/null || true
	demo_pid=""
}

demo_show_who_reads() {
	if ! is_root; then
		note "(one account plays everybody here, so it is hookd's sandboxes alone that keep the"
		note "sealed tree closed; as root the demo gives each side an account of its own)"
		return 0
	fi
	note "developer and Git server run as nobody, hookd as $demo_hookd_uid, its sandboxes as ${demo_slot_uid:-the same}..."
	note "what the developer sees of the sealed tree:"
	show_command "ls replay-host/sealed"
	if (cd "$demo_dir" && "${as_people[@]}" ls replay-host/sealed) 2>&1 | indent; then
		surprise "another account can read the sealed tree"
	fi
}

# --- scenes --------------------------------------------------------------

scene_honest() {
	scene "1. An honest change" <<-TXT
		The developer (or an agent) tidies the code. hookd replays it against the two
		invariants of oracles/, which everybody can read, and against two sealed
		properties and two fixtures, which the developer has never seen.

	TXT
	edit parcel/price.py 's/cents = cents + cents \/\/ 2/cents += cents \/\/ 2/'
	show_change
	commit "Shorter express price"
	push moves refs/heads/main main
	answered "eligible for human review"
	scene_end
}

scene_oracle_change() {
	scene "2. A change of an oracle" <<-TXT
		oracles/ says what "right" means. It changes only with a maintainer's
		signature, whoever pushes it.

	TXT
	edit oracles/parcels.toml 's/max = 6000/max = 9000/'
	show_change
	commit "Dearer parcels"
	push stays refs/heads/main main
	answered "no maintainer has approved it"
	answered "price_in_range: max 6000 -> 9000 (widened)"
	say "The developer proposes it where unapproved oracle changes may live:"
	push moves refs/heads/oracle-change/dearer main:refs/heads/oracle-change/dearer
	say "A maintainer looks at it and signs this one step, with an ordinary SSH key:"
	maintainer_approves
	say "Now the same commit may land:"
	push moves refs/heads/main main
	scene_end
}

maintainer_approves() {
	local out
	show_command 'git oracle approve origin/oracle-change/dearer --yes --reason "up to 90.00 in the new contract"'
	if out=$(maintainer git oracle approve origin/oracle-change/dearer --yes --reason "up to 90.00 in the new contract" 2>&1); then
		sed -E 's/ +$//' <<<"$out" | indent
	else
		indent <<<"$out"
		surprise "the approval failed"
	fi
}

scene_invariant() {
	scene "3. A change that breaks an oracle which everybody can read" <<-TXT
		oracles/parcels.toml says what 25 kg in town cost, and hookd asks the code.

	TXT
	edit parcel/price.py 's/^    if express:/    if zone == "town" and weight_g > 20_000:\n        cents = 1990\n    if express:/'
	show_change
	commit "A flat rate for heavy parcels in town"
	push stays refs/heads/main main
	answered "agreed_prices: row 2: 1990 where 2640 is expected"
	say "The developer may ask the same questions at home, before pushing:"
	show_command "git oracle run"
	developer git oracle run --python "$demo_python" --no-harness 2>/dev/null | indent || true
	developer git reset -q --hard origin/main
	scene_end
}

scene_broken() {
	scene "4. A change that breaks what nobody told it" <<-TXT
		It looks simpler, and the public tests are green.

	TXT
	edit parcel/price.py 's/steps = -(-weight_g \/\/ STEP_G)/steps = weight_g \/\/ STEP_G/'
	show_change
	commit "Simpler steps"
	show_command "python3 -m unittest"
	developer "$demo_python" -m unittest 2>&1 | grep -E '^(Ran|OK|FAILED)' | indent
	push stays refs/heads/main main
	answered "a sealed check"
	said_nothing_sealed
	say "That is all the developer learns. On the replay host a maintainer sees more:"
	demo_show_decision
	developer git reset -q --hard origin/main
	scene_end
}

# demo_show_decision shows the packet of the decision that the last answer named.
demo_show_decision() {
	local id
	id=$(sed -nE 's/.*\(decision ([0-9a-f]{8})\).*/\1/p' <<<"$demo_answer" | head -n 1)
	[[ -n $id ]] || { surprise "the answer names no decision"; return; }
	show_command "hookd packet show $id"
	on_replay_host hookd packet show --config hookd.yaml "$id" 2>&1 | indent || surprise "the packet cannot be read"
}

scene_fixture() {
	scene "5. A fixture is altered on the replay host" <<-TXT
		The change is honest; somebody has touched the bytes that judge it.

	TXT
	local fixture=$demo_dir/replay-host/sealed/fixtures/counter
	fixture=$(on_replay_host find sealed/fixtures -name 'counter*')
	on_replay_host cp "$fixture" counter.kept
	show_command "echo >> replay-host/$fixture"
	# shellcheck disable=SC2016 # the inner shell expands it
	on_replay_host sh -c 'chmod u+w "$1"; echo >>"$1"' - "$fixture"
	append README.md "Prices are in cents."
	commit "Say what the unit is"
	push stays refs/heads/main main
	answered "the sealed inventory does not match"
	said_nothing_sealed
	say "Put back as it was locked, and pushed again:"
	on_replay_host cp counter.kept "$fixture"
	push moves refs/heads/main main
	scene_end
}

scene_freeze() {
	scene "6. A freeze that has expired" <<-TXT
		Known flaky tests may be frozen for some days, by name and with an owner.
		When the days are over, the freeze itself blocks.

	TXT
	freeze_add
	on_replay_host sed -i -E 's/("expires_utc": *")[0-9]{4}/\12001/' sealed/freeze.json
	quiet on_replay_host hookd seal lock --config hookd.yaml --repo parcel
	note "(its last day is set into the past)"
	append README.md "Weights are in grams."
	commit "Say what weights are"
	push stays refs/heads/main main
	answered "a freeze must be renewed"
	say "The owner renews it:"
	show_command "hookd freeze prune"
	quiet on_replay_host hookd freeze prune --config hookd.yaml --repo parcel
	freeze_add
	push moves refs/heads/main main
	scene_end
}

freeze_add() {
	show_command 'hookd freeze add tests.test_price.PriceTest.test_two_kilos_abroad --days 14 ...'
	quiet on_replay_host hookd freeze add --config hookd.yaml --repo parcel tests.test_price.PriceTest.test_two_kilos_abroad \
		--reason "rates service is slow on Mondays" --owner shipping --days 14
}

scene_merge() {
	scene "7. An oracle edit hidden in a merge" <<-TXT
		Neither branch touches oracles/; the merge commit itself does.

	TXT
	developer git checkout -q -b label
	append parcel/label.py "FORM = \"A6\""
	commit "Labels are A6"
	developer git checkout -q main
	append README.md "Labels are printed."
	commit "Mention labels"
	developer git merge -q --no-ff --no-commit label >/dev/null 2>&1
	edit oracles/parcels.toml 's/max = 9000/max = 90000/'
	commit "Merge branch 'label'"
	show_merge
	push stays refs/heads/main main
	answered "no maintainer has approved it"
	say "The same merge without the edit:"
	developer git reset -q --hard HEAD^1
	developer git merge -q --no-ff -m "Merge branch 'label'" label
	push moves refs/heads/main main
	scene_end
}

scene_stopped() {
	scene "8. The replay host is down" <<-TXT
		No verdict is not a pass. Nothing is lost, nothing moves.

	TXT
	demo_end_hookd
	note "(hookd is stopped)"
	append README.md "Zones are town, country and abroad."
	commit "Name the zones"
	push stays refs/heads/main main
	answered "not judged"
	demo_start_hookd
	say "(hookd is started again)"
	push moves refs/heads/main main
	scene_end
}

# edit FILE SED-EXPRESSION and append FILE LINE change the developer's clone.
edit() { developer sed -i "$2" "$1"; }
# shellcheck disable=SC2016 # the inner shell expands it
append() { developer sh -c 'printf "\n%s\n" "$2" >>"$1"' - "$1" "$2"; }

show_change() {
	developer git diff --unified=0 | grep -E '^[-+]' | grep -vE '^(---|\+\+\+) /dev/null' | sed -E '/^--- /d; s/^\+\+\+ b\//  in /; s/^([-+])/    \1 /'
	echo
}

show_merge() {
	show_command "git show --format= --cc HEAD"
	developer git show --format= --cc --unified=0 HEAD | grep -E '^[-+ ]{2}[^-+]' | sed 's/^/    /'
	echo
}

# --- the end -------------------------------------------------------------

demo_outro() {
	local keep=$1 packets="$demo_dir/replay-host" as=""
	printf '\n== What happened %s\n' "$(printf '=%.0s' $(seq 1 61))"
	printf '%s\n' "${demo_rows[@]}"
	echo
	note "$((SECONDS - demo_started)) s in all."
	is_root && as="setpriv --reuid=$demo_hookd_uid --regid=$demo_hookd_uid --clear-groups "
	cat <<-TXT

		Look at every decision, as a maintainer sees it on the replay host:
		  cd $(printf '%q' "$packets")
		  ${as}../bin/hookd packet list --config hookd.yaml
		  ${as}../bin/hookd packet show --config hookd.yaml DECISION
		Look around: git-host/gate.yaml, replay-host/hookd.yaml, replay-host/sealed/,
		hookd.log. The demo has changed nothing outside its directory:
		  rm -rf $(printf '%q' "$demo_dir")

		Put it in front of a repository of yours (as root; try --dry-run first):
		  scripts/install.sh --repo /srv/git/shop.git --maintainer "NAME=NAME.pub"
		docs/install.md explains it; docs/first-oracle.md and docs/first-seal.md go from
		nothing to a first invariant and a first sealed property in ten minutes each.
	TXT
	if [[ $keep == yes ]]; then
		echo
		note "hookd goes on (pid $demo_pid); push from $(printf '%q' "$demo_dir/developer"); kill $demo_pid ends it."
		demo_pid=""
		trap - EXIT
	fi
	[[ $demo_surprises == 0 ]] || die "$demo_surprises surprises: something is not as it should be"
}
