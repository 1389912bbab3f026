# Puts the gate in front of existing bare repositories, and takes it away.
#
# Every step looks first and acts only where something is missing or differs,
# so that a second run changes nothing. gate.yaml and hookd.yaml may be edited
# by hand; the installer appends entries at their end and changes single lines.
# shellcheck shell=bash
# shellcheck disable=SC2154 # source_dir is install.sh's

readonly unit_file=/etc/systemd/system/sealgate-hookd.service
readonly shim_mark="# sealgate shim v1:"

repo_defaults() {
	opt_repos=()
	opt_only=()
	opt_gitea=""
	opt_mode=""
	opt_strict=no
	opt_contact=""
	opt_maintainers=()
	opt_seal=""
	opt_replay=""
	opt_prefix=/usr/local/lib/sealgate
	opt_etc=/etc/sealgate
	opt_var=/var/lib/sealgate
	opt_git_user=""
	opt_programs=""
	opt_hookd_user=sealgate
	opt_service=yes
	opt_start=no
	opt_dry_run=no
	changes=0
	new_ids=()
}

# --- steps ---------------------------------------------------------------

# step TEXT COMMAND… says what is changed, and changes it unless this is a dry run.
step() {
	local text=$1
	shift
	changes=$((changes + 1))
	printf '  + %s\n' "$text"
	[[ $opt_dry_run == yes ]] || "$@"
}

# own PATH USER: without root everything stays ours.
own() {
	is_root || return 0
	chown -h "$2:$(group_of "$2")" "$1"
}

group_of() { id -g "$1" 2>/dev/null || echo "$1"; }

ensure_dir() {
	local path=$1 mode=$2 user=$3
	if [[ ! -d $path ]]; then
		step "make $path (mode $mode, $user)" make_dir "$path" "$mode" "$user"
	elif [[ $(stat -c %a "$path") != "${mode#0}" ]] || { is_root && [[ $(user_of "$path") != "$user" ]]; }; then
		step "set $path to mode $mode, owner $user" set_dir "$path" "$mode" "$user"
	fi
}

make_dir() {
	mkdir -p "$1"
	set_dir "$@"
}

set_dir() {
	chmod "$2" "$1"
	own "$1" "$3"
}

# ensure_file PATH MODE USER CONTENT: written aside and renamed. A last newline
# is added to what is not empty.
ensure_file() {
	local path=$1 mode=$2 user=$3 content=${4:+$4$'\n'}
	if [[ -f $path ]] && printf '%s' "$content" | cmp -s - "$path"; then return 0; fi
	step "write $path" write_file "$path" "$mode" "$user" "$content"
}

write_file() {
	local path=$1 mode=$2 user=$3 aside
	aside=$(mktemp "$(dirname "$path")/.sealgate.XXXXXX")
	printf '%s' "$4" >"$aside"
	chmod "$mode" "$aside"
	own "$aside" "$user"
	mv -f "$aside" "$path"
}

ensure_key() {
	local path=$1 user=$2 comment=$3
	[[ ! -f $path ]] || return 0
	step "make the key $path (0600, $user)" make_key "$path" "$user" "$comment"
}

make_key() {
	ssh-keygen -q -t ed25519 -N '' -C "$3" -f "$1"
	chmod 0600 "$1"
	chmod 0644 "$1.pub"
	own "$1" "$2"
}

root_user() { if is_root; then echo root; else id -un; fi; }

# as_user USER COMMAND… runs a command as the named user, in its own groups.
as_user() {
	local user=$1
	shift
	if [[ $user == "$(id -un)" ]] || ! is_root; then
		"$@"
	else
		local groups=--init-groups
		getent passwd "$user" >/dev/null || groups=--clear-groups
		setpriv --reuid="$user" --regid="$(group_of "$user")" "$groups" -- env HOME=/nonexistent "$@"
	fi
}

# --- what is asked for ---------------------------------------------------

check_options() {
	case $opt_mode in
	"" | record | warn | enforce) ;;
	*) usage_error "--mode is record, warn or enforce, not $opt_mode" ;;
	esac
	[[ $opt_contact != *[[:cntrl:]]* ]] || usage_error "--contact is one line"
	if [[ $opt_replay == no ]]; then
		[[ $opt_seal != yes ]] || usage_error "--seal needs replays; leave out --no-replay"
		opt_seal=no
	fi
	[[ -n $opt_gitea || ${#opt_only[@]} == 0 ]] || usage_error "--only belongs to --gitea ROOT"
	[[ -z $opt_gitea || ${#opt_only[@]} -gt 0 ]] || usage_error "--gitea needs --only OWNER/REPO..."
	local dir
	for dir in "$opt_prefix" "$opt_etc" "$opt_var"; do
		[[ $dir == /* ]] || usage_error "not an absolute path: $dir"
	done
	if ! is_root; then
		[[ $opt_etc != /etc/sealgate ]] || die "installing needs root" "run with sudo; without root, name your own --prefix, --etc and --var"
		opt_service=no
		opt_hookd_user=$(id -un)
	fi
	run_dir=$opt_var/run
	[[ $opt_etc != /etc/sealgate ]] || run_dir=/run/sealgate
	[[ ${#run_dir} -le 89 ]] || usage_error "too long for the path of a socket: $run_dir"
	gate_file=$opt_etc/gate.yaml
	hookd_file=$opt_etc/hookd.yaml
	state_dir=$opt_var/gate
}

# find_targets fills target_paths and target_kinds with what
# --repo and --gitea name.
find_targets() {
	local path only
	target_paths=()
	target_kinds=()
	for path in "${opt_repos[@]}"; do
		add_target bare "$path"
	done
	for only in "${opt_only[@]}"; do
		[[ $only =~ ^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$ ]] || usage_error "--only takes OWNER/REPO, not $only"
		only=${only,,}
		add_target gitea "$opt_gitea/${only%.git}.git"
	done
}

add_target() {
	local kind=$1 path
	[[ -d $2 ]] || die "there is no repository $2"
	path=$(cd "$2" && pwd -P)
	[[ $path != *[[:cntrl:]]* ]] || die "control characters in $(printf '%q' "$path")"
	[[ $(git_in "$path" rev-parse --is-bare-repository 2>/dev/null) == true ]] ||
		die "$path is not a bare repository" "name the repository that people push to"
	[[ $(git_in "$path" rev-parse --absolute-git-dir) == "$path" ]] || die "$path lies inside another repository"
	target_paths+=("$path")
	target_kinds+=("$kind")
}

# user_of PATH prints the owner's name, or the number where it has none.
user_of() {
	local name
	name=$(stat -c %U "$1")
	if [[ $name == UNKNOWN ]]; then stat -c %u "$1"; else echo "$name"; fi
}

# hook_user PATH prints who runs the repository's hooks.
hook_user() {
	local name
	[[ -n $opt_git_user ]] || { user_of "$1"; return; }
	name=$(getent passwd "$opt_git_user" | cut -d: -f1) || name=""
	echo "${name:-$opt_git_user}"
}

# git_in PATH ARGUMENT… runs git in a repository as the user who owns it.
git_in() {
	local path=$1
	shift
	as_user "$(user_of "$path")" env GIT_CONFIG_NOSYSTEM=1 git --git-dir="$path" "$@"
}

# --- entries of gate.yaml ------------------------------------------------

# entry PATH [FILE] prints the lines of the repository's entry in gate.yaml.
entry() {
	local file=${2:-$gate_file}
	[[ -e $file ]] || return 0
	local line block="" inside=no found=no value
	while IFS= read -r line; do
		if [[ $line =~ ^[[:space:]]*-[[:space:]]+path:[[:space:]]*(.*)$ ]]; then
			value=$(yaml_plain "${BASH_REMATCH[1]}")
			inside=no
			if [[ $value == "$1" ]]; then inside=yes && found=yes; fi
		fi
		[[ $inside == no ]] || block+=$line$'\n'
	done <"$file"
	[[ $found == no ]] || printf '%s' "$block"
}

# yaml_plain undoes yaml_quote, and takes a plain or single-quoted scalar too.
yaml_plain() {
	local text=$1
	case $text in
	\"*\")
		text=${text:1:${#text}-2}
		text=${text//\\\"/\"}
		text=${text//\\\\/\\}
		;;
	\'*\') text=${text:1:${#text}-2} && text=${text//\'\'/\'} ;;
	esac
	printf '%s' "$text"
}

# field ENTRY KEY prints the scalar of a key of the entry.
field() {
	local line
	while IFS= read -r line; do
		if [[ $line =~ ^[[:space:]]+$2:[[:space:]]+([^[:space:]].*)$ ]]; then
			yaml_plain "${BASH_REMATCH[1]}"
			return 0
		fi
	done <<<"$1"
}

# set_lines PATH PREFIX LINE [PREFIX LINE]… prints gate.yaml with the lines of
# one entry that start with PREFIX replaced.
set_lines() {
	local path=$1 line inside=no
	shift
	while IFS= read -r line; do
		if [[ $line =~ ^[[:space:]]*-[[:space:]]+path:[[:space:]]*(.*)$ ]]; then
			inside=no
			[[ $(yaml_plain "${BASH_REMATCH[1]}") != "$path" ]] || inside=yes
		fi
		[[ $inside == no ]] || line=$(replaced "$line" "$@")
		printf '%s\n' "$line"
	done <"$gate_file"
}

replaced() {
	local line=$1
	shift
	while [[ $# -gt 0 ]]; do
		[[ $line != "$1"* ]] || line=$2
		shift 2
	done
	printf '%s' "$line"
}

gate_header() {
	cat <<-YAML
		# The gate of this server. docs/install.md says what each line means;
		# check a change with: $opt_prefix/prereceive check-config --config $gate_file
		# The list of repositories stays last: the installer appends to it.
		version: 1
		state: $(yaml_quote "$state_dir")
		hookd:
		  address: $(yaml_quote "unix:$run_dir/hookd.sock")
		  host_key: $(yaml_quote "$(key_or_dash "$opt_etc/hookd_host_ed25519.pub")")
		  client_key: $(yaml_quote "$opt_etc/gate_ed25519")
		repositories:
	YAML
}

# In a dry run the key is not there yet.
key_or_dash() { if [[ -f $1 ]]; then public_key "$1"; else printf -- '-'; fi; }

# new_entry PATH ID NAME prints the entry of a repository that has none.
new_entry() {
	local path=$1 id=$2 name=$3 head releases newline=$'\n'
	head=$(head_ref "$path")
	releases=$(release_entries "$path" "$head")
	cat <<-YAML
		  - path: $(yaml_quote "$path")
		    id: $id
		    contact: $(yaml_quote "${opt_contact:-the administrator of this server}")
		    protected:
		      - ref: $(yaml_quote "$head")
		        baseline: $(baseline "$path" "$head")
		      - pattern: refs/heads/release/**${releases:+$newline$releases}
		    maintainers: $(yaml_quote "$opt_etc/$name/maintainers")
		    revoked_keys: $(yaml_quote "$opt_etc/$name/revoked_keys")
		    agents: $(yaml_quote "$opt_etc/$name/agents")
		    threshold: 1
		    paths:
		      protected: [oracles/, freeze.json]
		      forbidden: [sealed/]
		    seal: $(yes_true "$opt_seal")
		    replay: $(yes_true "$opt_replay")
		    mode:
		      protected: $(protected_mode "$name" "$path" "$opt_seal")
		      topic: $(topic_mode)
	YAML
}

yes_true() { if [[ $1 == no ]]; then echo false; else echo true; fi; }

head_ref() {
	git_in "$1" symbolic-ref -q HEAD || die "HEAD of $1 names no branch" "git --git-dir=$1 symbolic-ref HEAD refs/heads/main"
}

baseline() { git_in "$1" rev-parse --quiet --verify "$2^{commit}" || echo none; }

release_entries() {
	local ref
	while IFS= read -r ref; do
		[[ $ref != "$2" ]] || continue
		printf '      - ref: %s\n        baseline: %s\n' "$(yaml_quote "$ref")" "$(baseline "$1" "$ref")"
	done < <(git_in "$1" for-each-ref --format='%(refname)' refs/heads/release/)
}

# protected_mode NAME PATH SEAL: where there is nothing to judge by yet, the
# replay is only recorded, unless a mode is asked for.
protected_mode() {
	local replay=${opt_mode:-enforce}
	[[ -n $opt_mode || $opt_replay == no ]] || can_judge "$@" || replay=record
	printf '{paths: %s, replay: %s}' "${opt_mode:-enforce}" "$replay"
}

# can_judge NAME PATH SEAL: a sealed tree that is locked, or without one
# invariants at HEAD.
can_judge() {
	if [[ $3 == no ]]; then has_invariants "$2"; else seal_ready "$1"; fi
}

has_invariants() {
	git_in "$1" ls-tree --name-only HEAD oracles/ 2>/dev/null | grep -q '[.]toml$'
}

topic_mode() {
	local replay=record
	[[ $opt_strict == no ]] || replay=${opt_mode:-enforce}
	printf '{paths: %s, replay: %s}' "${opt_mode:-enforce}" "$replay"
}

seal_ready() {
	[[ -f $opt_var/seals/$1/MANIFEST.json ]] &&
		as_user "$opt_hookd_user" "$opt_prefix/hookd" seal verify --seal "$opt_var/seals/$1" >/dev/null 2>&1
}

# --- install -------------------------------------------------------------

repo_install() {
	local install=$1 index
	check_options
	need_install_programs "$install"
	find_targets
	read_maintainers
	[[ $opt_dry_run == no ]] || echo "dry run: nothing is changed"
	install_programs
	install_users
	install_host
	for index in "${!target_paths[@]}"; do
		install_repository "${target_paths[index]}" "${target_kinds[index]}"
	done
	check_configuration
	begin_records
	install_service
	for index in "${!target_paths[@]}"; do
		switch_on "${target_paths[index]}" "${target_kinds[index]}"
	done
	install_summary
}

need_install_programs() {
	local -a programs=(git ssh-keygen)
	if is_root; then programs+=(setpriv useradd); fi
	[[ $opt_replay == no ]] || programs+=(bwrap python3)
	need_programs "$1" "${programs[@]}"
	[[ -n $opt_programs ]] || need_go "$1"
	[[ $opt_replay == no ]] || sandbox_python=$(system_python) ||
		die "every python3 here is closed to other accounts" "install the package python3"
}

install_programs() {
	local program
	built=$opt_programs
	if [[ -z $built ]]; then
		built=$(mktemp -d)
		trap 'rm -rf "$built"' EXIT
		[[ $opt_dry_run == yes ]] || build_binaries "$source_dir" "$built"
	fi
	ensure_dir "$opt_prefix" 0755 "$(root_user)"
	for program in prereceive hookd git-oracle; do
		[[ -n $opt_programs || $opt_dry_run == no ]] || { [[ -x $opt_prefix/$program ]] || step "build and install $opt_prefix/$program" :; continue; }
		cmp -s "$built/$program" "$opt_prefix/$program" ||
			step "install $opt_prefix/$program" install_program "$program"
	done
	[[ $opt_prefix == /usr/local/lib/sealgate ]] || return 0
	[[ $(readlink /usr/local/bin/git-oracle || true) == "$opt_prefix/git-oracle" ]] ||
		step "link /usr/local/bin/git-oracle" ln -sfn "$opt_prefix/git-oracle" /usr/local/bin/git-oracle
	install_help "$source_dir/docs/man/git-oracle.1" "$man_page"
	install_help "$source_dir/cmd/git-oracle/completion.bash" "$completion_file"
}

# Where git looks for the manual (git help oracle), and bash for completions.
readonly man_page=/usr/local/share/man/man1/git-oracle.1
readonly completion_file=/usr/local/share/bash-completion/completions/git-oracle

# install_help FILE PLACE
install_help() {
	[[ -f $1 ]] || return 0
	cmp -s "$1" "$2" || step "install $2" install -D -m 0644 "$1" "$2"
}

install_program() {
	install -m 0755 "$built/$1" "$opt_prefix/.$1.new"
	mv -f "$opt_prefix/.$1.new" "$opt_prefix/$1"
	programs_changed=yes
}

install_users() {
	is_root || return 0
	getent passwd "$opt_hookd_user" >/dev/null ||
		step "add the system user $opt_hookd_user" useradd --system --user-group --no-create-home --home-dir "$opt_var" --shell /usr/sbin/nologin "$opt_hookd_user"
	[[ $opt_hookd_user != root ]] || die "hookd never runs as root"
}

# One account runs the hooks of all repositories of a gate: their records and
# the gate's key are its own.
install_host() {
	local git_user path
	git_user=$(hook_user "${target_paths[0]}")
	for path in "${target_paths[@]}"; do
		[[ $(hook_user "$path") == "$git_user" ]] || die "$path belongs to $(hook_user "$path"), not to $git_user" "give each git user a gate of its own (--etc and --var)"
	done
	[[ ! -d $state_dir || $(user_of "$state_dir") == "$git_user" ]] ||
		die "$state_dir belongs to $(user_of "$state_dir"), not to $git_user" "give each git user a gate of its own (--etc and --var)"
	! is_root || [[ $git_user != root ]] ||
		echo "note: these repositories belong to root: who pushes runs as root here and can read the sealed tree"
	if is_root && [[ $git_user == "$opt_hookd_user" ]]; then
		die "the git user and hookd's user are the same: $git_user" "the git user must not read the sealed tree"
	fi
	ensure_dir "$opt_etc" 0755 "$(root_user)"
	ensure_dir "$opt_var" 0755 "$(root_user)"
	ensure_dir "$state_dir" 0700 "$git_user"
	ensure_dir "$opt_var/hookd" 0711 "$opt_hookd_user"
	ensure_dir "$opt_var/seals" 0700 "$opt_hookd_user"
	ensure_key "$opt_etc/gate_ed25519" "$git_user" gate
	ensure_key "$opt_etc/hookd_host_ed25519" "$opt_hookd_user" hookd
	[[ -f $gate_file ]] || ensure_file "$gate_file" 0644 "$(root_user)" "$(gate_header)"
}

# install_repository PATH KIND: everything but the hook itself.
install_repository() {
	local path=$1 kind=$2 block id name content
	echo "$path"
	block=$(entry "$path")
	if [[ -n $block ]]; then
		id=$(field "$block" id)
		name=$(basename "$(dirname "$(field "$block" maintainers)")")
	else
		id=$(cat /proc/sys/kernel/random/uuid)
		name=$(free_name "$path" "$kind")
	fi
	install_people "$name" "$path"
	if [[ $opt_replay != no && ( -z $block || -n $opt_seal || $(field "$block" replay) == true ) ]]; then
		install_judge "$id" "$name" "$(wants_seal "$block")"
	fi
	if [[ -z $block ]]; then
		block=$(new_entry "$path" "$id" "$name")
		new_ids+=("$id")
		content=$(if [[ -f $gate_file ]]; then cat "$gate_file"; else gate_header; fi)
		ensure_file "$gate_file" 0644 "$(root_user)" "$content"$'\n'"$block"
		[[ $opt_dry_run == no ]] || indent '    ' <<<"$block"
	else
		change_entry "$path" "$name"
	fi
}

# wants_seal ENTRY: yes or no; without an option it stays as it is.
wants_seal() {
	if [[ -n $opt_seal ]]; then
		echo "$opt_seal"
	elif [[ -n $1 && $(field "$1" seal) != true ]]; then
		echo no
	else
		echo yes
	fi
}

# change_entry PATH NAME: only what was asked for on the command line.
change_entry() {
	local -a lines=()
	local content index
	[[ -z $opt_contact ]] || lines+=("    contact: " "    contact: $(yaml_quote "$opt_contact")")
	[[ -z $opt_seal ]] || lines+=("    seal: " "    seal: $(yes_true "$opt_seal")" "    replay: " "    replay: $(yes_true "$opt_replay")")
	[[ -z $opt_mode ]] || lines+=("      protected: {" "      protected: $(protected_mode "$2" "$1" "$opt_seal")")
	[[ -z $opt_mode && $opt_strict == no ]] || lines+=("      topic: {" "      topic: $(topic_mode)")
	if [[ -z $opt_mode ]] && judged_anew "$(entry "$1")" && ! can_judge "$2" "$1" "$opt_seal"; then
		lines+=("      protected: {" "      protected: {paths: $(mode_of "$(entry "$1")" protected paths), replay: record}")
	fi
	[[ ${#lines[@]} -gt 0 ]] || return 0
	content=$(set_lines "$1" "${lines[@]}")
	for ((index = 1; index < ${#lines[@]}; index += 2)); do
		entry "$1" <(printf '%s\n' "$content") | grep -qxF -- "${lines[index]}" ||
			die "$gate_file has been written by hand; I cannot change this line in the entry of $1" "set it there:${lines[index]}"
	done
	ensure_file "$gate_file" 0644 "$(root_user)" "$content"
}

# judged_anew ENTRY: the options give the repository another judge.
judged_anew() {
	[[ -n $opt_seal && $opt_replay != no ]] || return 1
	[[ $(field "$1" seal) != "$(yes_true "$opt_seal")" || $(field "$1" replay) != true ]]
}

# mode_of ENTRY protected|topic paths|replay prints a mode of the entry; without
# a line of its own it is enforce.
mode_of() {
	local line
	line=$(grep -E "^ +$2: \{" <<<"$1" | head -n 1) || line=""
	line=$(sed -nE "s/.*[{ ]$3: *([a-z]+).*/\1/p" <<<"$line")
	printf '%s' "${line:-enforce}"
}

# free_name PATH KIND prints a short name that no directory below etc has.
free_name() {
	local name number=2
	name=$(basename "$1" .git)
	[[ $2 != gitea ]] || name=$(basename "$(dirname "$1")")-$name
	name=${name//[^A-Za-z0-9._-]/-}
	[[ $name =~ ^[A-Za-z0-9] ]] || name=r$name
	[[ -e $opt_etc/$name ]] || { echo "$name"; return; }
	while [[ -e $opt_etc/$name-$number ]]; do number=$((number + 1)); done
	echo "$name-$number"
}

# read_maintainers turns --maintainer into lines of allowed_signers, before
# anything is changed.
read_maintainers() {
	local pair person file
	signers=()
	for pair in "${opt_maintainers[@]}"; do
		person=${pair%%=*}
		file=${pair#*=}
		[[ $pair == *=* && -n $person ]] || usage_error "--maintainer takes NAME=KEYFILE, not $pair"
		[[ -r $file ]] || die "read the maintainer's key $file"
		if [[ $(head -n 1 "$file") == -----* ]] || ! ssh-keygen -l -f "$file" >/dev/null 2>&1; then
			die "$file is not a public key" "name the .pub file"
		fi
		signers+=("$(signers_line "$person" "$(public_key "$file")")")
	done
}

install_people() {
	local name=$1 dir=$opt_etc/$1 file line kept=""
	ensure_dir "$dir" 0755 "$(root_user)"
	[[ ! -f $dir/maintainers ]] || kept=$(cat "$dir/maintainers")$'\n'
	for line in "${signers[@]}"; do
		[[ $kept == *"$line"* ]] || kept+=$line$'\n'
	done
	ensure_file "$dir/maintainers" 0644 "$(root_user)" "${kept%$'\n'}"
	for file in revoked_keys agents; do
		[[ -f $dir/$file ]] || ensure_file "$dir/$file" 0644 "$(root_user)" ""
	done
	[[ -n $kept ]] || echo "  note: $2 has no maintainer yet: nobody can approve an oracle change (--maintainer NAME=KEYFILE)"
}

# install_judge ID NAME SEAL: hookd judges the repository, by a sealed tree where
# SEAL is yes.
install_judge() {
	local id=$1 name=$2 seal=$opt_var/seals/$2 content
	if [[ ! -f $hookd_file ]]; then
		content=$(hookd_header "$id")$'\n'$(hookd_entry "$id" "$name" "$3")
	elif ! grep -qF "id: $id" "$hookd_file"; then
		grep -qE 'role: gate, repositories: \[[^]]*\]\}' "$hookd_file" ||
			die "$hookd_file has no line that I can add the repository to" "add its id to the client with the role gate, and an entry to repositories"
		content=$(sed -E "s/(role: gate, repositories: \[[^]]*)\]\}/\1, $id]}/" "$hookd_file" && hookd_entry "$id" "$name" "$3")
	else
		content=$(bind_seal "$id" "$3" "$(seal_line "$name")")
	fi
	[[ -f $hookd_file && $content == "$(cat "$hookd_file")" ]] || hookd_changed=yes
	ensure_file "$hookd_file" 0644 "$(root_user)" "$content"
	[[ $3 == yes ]] || return 0
	ensure_dir "$seal" 0700 "$opt_hookd_user"
	[[ -f $seal/MANIFEST.json ]] ||
		step "begin the sealed tree $seal" begin_seal "$name"
}

seal_line() { printf '    seal: %s' "$(yaml_quote "$opt_var/seals/$1")"; }

# bind_seal ID SEAL LINE prints hookd.yaml with LINE in the entry where SEAL is
# yes and no sealed tree is named there, and without such a line where it is no.
bind_seal() {
	local line inside=no head="  - id: $1" add=$2
	if hookd_block "$1" | grep -q '^    seal: '; then add=no; fi
	while IFS= read -r line; do
		[[ $line != "  - "* ]] || inside=no
		[[ $line != "$head" ]] || inside=yes
		[[ $inside$2 != yesno || $line != "    seal: "* ]] || continue
		printf '%s\n' "$line"
		[[ $line != "$head" || $add == no ]] || printf '%s\n' "$3"
	done <"$hookd_file"
}

# hookd_block ID prints the lines of the repository's entry in hookd.yaml.
hookd_block() {
	local line inside=no
	while IFS= read -r line; do
		[[ $line != "  - "* ]] || inside=no
		[[ $line != "  - id: $1" ]] || inside=yes
		[[ $inside == no ]] || printf '%s\n' "$line"
	done <"$hookd_file"
}

begin_seal() {
	as_user "$opt_hookd_user" "$opt_prefix/hookd" seal init --config "$hookd_file" --repo "$1" >/dev/null
}

hookd_header() {
	local first
	cat <<-YAML
		# The replay host. docs/install.md says what each line means.
		# The list of repositories stays last: the installer appends to it.
		version: 1
		data: $(yaml_quote "$opt_var/hookd")
		listen: [$(yaml_quote "unix:$run_dir/hookd.sock")]
		host_key: $(yaml_quote "$opt_etc/hookd_host_ed25519")
		clients:
		  - {key: $(yaml_quote "$(key_or_dash "$opt_etc/gate_ed25519.pub")"), role: gate, repositories: [$1]}
	YAML
	if is_root; then
		first=$(slot_uids "${opt_etc#/etc/sealgate}") || die "this system has no 64 free account numbers for the sandboxes"
		cat <<-YAML
			sandbox:
			  uids: {first: $first, count: 64}
		YAML
	fi
	cat <<-YAML
		workers: 2
		repositories:
	YAML
}

hookd_entry() {
	local seal=""
	[[ $3 == no ]] || seal=$'\n'$(seal_line "$2")
	cat <<-YAML
		  - id: $1
		    name: $2$seal
		    python: $(yaml_quote "$sandbox_python")
		    disclose: lane
	YAML
}

check_configuration() {
	local out
	[[ $opt_dry_run == no ]] || return 0
	out=$(as_user "$(hook_user "${target_paths[0]}")" "$opt_prefix/prereceive" check-config --config "$gate_file" 2>&1) || {
		printf '%s\n' "$out" >&2
		die "$gate_file has faults; no hook was changed" "mend the file and run this again"
	}
}

# begin_records begins the record of every ref that came under the gate now: an
# approval counts only when it was issued after that.
begin_records() {
	local path block id ref
	[[ $opt_dry_run == no ]] || return 0
	for path in "${target_paths[@]}"; do
		block=$(entry "$path")
		id=$(field "$block" id)
		[[ " ${new_ids[*]} " == *" $id "* ]] || continue
		while IFS= read -r ref; do
			ref=$(yaml_plain "$ref")
			[[ $(baseline "$path" "$ref") != none ]] || continue
			step "begin the record of $ref" adopt "$path" "$id" "$ref"
		done < <(sed -nE 's/^ +- ref: //p' <<<"$block")
	done
}

adopt() {
	local out
	out=$(as_user "$(hook_user "$1")" "$opt_prefix/prereceive" adopt --config "$gate_file" --repo "$2" "$3" 2>&1) ||
		die "prereceive adopt $3: $out"
}

# --- the service ---------------------------------------------------------

unit() {
	cat <<-UNIT
		[Unit]
		Description=Sealgate replay daemon
		After=network.target

		[Service]
		User=$opt_hookd_user
		ExecStart="$opt_prefix/hookd" serve --config "$hookd_file"
		Restart=on-failure
		RestartSec=2
		RuntimeDirectory=sealgate
		RuntimeDirectoryMode=0755
		UMask=0022

		# What hookd may do: give each sandbox an account of its own, and end it.
		AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL
		CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL
		NoNewPrivileges=yes
		ProtectSystem=strict
		ReadWritePaths="$opt_var/hookd"$([[ $run_dir == /run/sealgate ]] || printf ' "%s"' "$run_dir")
		ProtectHome=read-only
		PrivateTmp=yes
		ProtectClock=yes
		LockPersonality=yes
		RestrictRealtime=yes
		RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
		KeyringMode=private
		# hookd makes a control group for each command; one that the kernel ends for
		# its memory does not end hookd.
		Delegate=yes
		OOMPolicy=continue
		# Some memory of commands is in no other limit (docs/threat-model.md).
		MemoryMax=75%
		TasksMax=4096
		LimitCORE=0
		# Not set, because the sandboxes need them: RestrictNamespaces, PrivateDevices,
		# ProtectControlGroups, ProtectProc, ProtectKernelTunables (a fresh /proc could
		# not be mounted).

		[Install]
		WantedBy=multi-user.target
	UNIT
}

install_service() {
	[[ -f $hookd_file ]] || return 0
	if [[ $opt_service == yes && -d /run/systemd/system ]]; then
		install_unit
	elif [[ $opt_start == yes ]]; then
		start_plainly
	fi
}

install_unit() {
	if [[ ! -f $unit_file ]] || ! unit | cmp -s - "$unit_file"; then
		[[ $run_dir == /run/sealgate ]] || ensure_dir "$run_dir" 0755 "$opt_hookd_user"
		ensure_file "$unit_file" 0644 root "$(unit)"
		step "start sealgate-hookd.service, now and at every boot" start_unit
	elif ! systemctl is-active -q sealgate-hookd.service || [[ ${programs_changed:-no}${hookd_changed:-no} != nono ]]; then
		step "restart sealgate-hookd.service" systemctl restart sealgate-hookd.service
	fi
	[[ $opt_dry_run == yes ]] || wait_for_hookd "journalctl -u sealgate-hookd"
}

start_unit() {
	systemctl daemon-reload
	systemctl enable -q sealgate-hookd.service
	systemctl restart sealgate-hookd.service
}

# start_command prints how hookd is started by hand.
start_command() {
	if is_root; then
		local caps="+setuid,+setgid,+kill"
		printf 'setpriv --reuid=%s --regid=%s --clear-groups --no-new-privs --inh-caps=%s --ambient-caps=%s --bounding-set=-all,%s ' \
			"$opt_hookd_user" "$(group_of "$opt_hookd_user")" "$caps" "$caps" "$caps"
	fi
	printf '%q serve --config %q' "$opt_prefix/hookd" "$hookd_file"
}

start_plainly() {
	local pid=""
	[[ ! -f $opt_var/hookd.pid ]] || pid=$(cat "$opt_var/hookd.pid")
	if [[ -n $pid && $(readlink "/proc/$pid/exe" 2>/dev/null) == "$opt_prefix/hookd"* ]]; then
		[[ ${programs_changed:-no}${hookd_changed:-no} != nono ]] || return 0
		step "stop hookd ($pid)" stop_plainly "$pid"
	fi
	ensure_dir "$run_dir" 0755 "$opt_hookd_user"
	step "start hookd in the background (log: $opt_var/hookd.log)" run_plainly
	[[ $opt_dry_run == yes ]] || wait_for_hookd "cat $opt_var/hookd.log"
}

stop_plainly() {
	local try
	kill "$1" 2>/dev/null || return 0
	for ((try = 0; try < 100; try++)); do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.1
	done
}

run_plainly() {
	local -a command
	eval "command=($(start_command))"
	rm -f "$run_dir/hookd.sock"
	(cd / && exec setsid env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$opt_var/hookd" LC_ALL=C.UTF-8 "${command[@]}") \
		>>"$opt_var/hookd.log" 2>&1 </dev/null &
	printf '%s\n' "$!" >"$opt_var/hookd.pid"
}

wait_for_hookd() {
	local try
	for ((try = 0; try < 200; try++)); do
		[[ ! -S $run_dir/hookd.sock ]] || return 0
		sleep 0.1
	done
	die "hookd does not serve" "$1"
}

# --- the hook itself -----------------------------------------------------

switch_on() {
	local path=$1 kind=$2 block id
	block=$(entry "$path")
	id=$(field "$block" id)
	write_gate_ref "$path" "$block"
	case $kind in
	bare) install_bare_hooks "$path" "${id:-ID}" ;;
	gitea) install_gitea_hooks "$path" "${id:-ID}" ;;
	*) die "no hooks are known for $kind" ;;
	esac
}

# write_gate_ref PATH ENTRY: what git oracle reads in any clone.
write_gate_ref() {
	local path=$1 content now
	[[ -n $2 && -x $opt_prefix/prereceive && $(field "$2" id) =~ ^[0-9a-f-]{36}$ ]] || { step "write refs/oracle/gate of $path" :; return; }
	content=$(as_user "$(hook_user "$path")" "$opt_prefix/prereceive" publish --config "$gate_file" --repo "$(field "$2" id)") ||
		die "read what the gate of $path publishes"
	now=$(git_in "$path" cat-file blob refs/oracle/gate 2>/dev/null || true)
	[[ $content == "$now" ]] || step "write refs/oracle/gate of $path" put_gate_ref "$path" "$content"
}

put_gate_ref() {
	local id
	id=$(printf '%s\n' "$2" | git_in "$1" hash-object -w --stdin)
	git_in "$1" update-ref refs/oracle/gate "$id"
}

hooks_dir() {
	local dir configured
	configured=$(git_in "$1" config core.hooksPath || true)
	[[ -z $configured ]] || die "$1 takes its hooks from $configured (core.hooksPath)" "a hook there would be every repository's; unset it for this one first"
	dir=$1/hooks
	[[ ! -L $dir ]] || die "$dir is a link to $(readlink "$dir")" "hooks there would be every repository's; give this one a directory of its own first"
	printf '%s' "$dir"
}

is_shim() { [[ -f $1 ]] && grep -qF "$shim_mark" "$1"; }

shim_values() {
	printf '%s\n' "prereceive=$opt_prefix/prereceive" "config=$gate_file" "repo=$1" "path=$(hook_path)"
}

install_bare_hooks() {
	local path=$1 id=$2 dir user hook
	dir=$(hooks_dir "$path")
	user=$(user_of "$path")
	ensure_dir_exists "$dir" "$user"
	[[ ! -d $dir/pre-receive.d ]] || ! grep -qsF pre-receive.d "$dir/pre-receive" ||
		echo "  note: $path looks like a repository of Gitea or Forgejo; --gitea puts the hook where these expect it"
	for hook in post-receive pre-receive; do
		install_bare_hook "$dir" "$hook" "$id" "$user"
	done
}

ensure_dir_exists() {
	[[ -d $1 ]] || step "make $1" make_dir "$1" 0755 "$2"
}

install_bare_hook() {
	local dir=$1 hook=$2 id=$3 user=$4 before=no
	local file=$dir/$hook kept=$dir/$hook.before-sealgate
	local -a values
	if is_shim "$file"; then
		[[ ! -e $kept || ! -x $kept ]] || before=yes
	elif [[ -e $file || -L $file ]]; then
		[[ ! -e $kept ]] || die "$kept is there already, and $file is not Sealgate's" "move one of them away"
		[[ ! -x $file ]] || before=yes
		step "keep the hook $file as $hook.before-sealgate" cp -a "$file" "$kept"
	fi
	mapfile -t values < <(shim_values "$id")
	ensure_file "$file" 0755 "$user" "$(fill_shim "$source_dir/hooks/bare/$hook" "${values[@]}" "before=$before")"
}

install_gitea_hooks() {
	local path=$1 id=$2 dir user hook
	local -a values
	dir=$(hooks_dir "$path")
	user=$(user_of "$path")
	mapfile -t values < <(shim_values "$id")
	for hook in pre-receive post-receive; do
		if ! [[ -x $dir/$hook ]] || ! grep -qF "$hook.d" "$dir/$hook"; then
			die "$dir/$hook does not run $hook.d" "resynchronise the hooks in the server's site administration, or use --repo for a plain bare repository"
		fi
	done
	for hook in post-receive pre-receive; do
		ensure_dir_exists "$dir/$hook.d" "$user"
		ensure_file "$dir/$hook.d/sealgate" 0755 "$user" "$(fill_shim "$source_dir/hooks/gitea/$hook.d/sealgate" "${values[@]}")"
	done
}

# --- the end -------------------------------------------------------------

install_summary() {
	local path block name
	echo
	if [[ $opt_dry_run == yes ]]; then
		echo "dry run: $changes steps would be done; nothing was changed"
		return
	fi
	case $changes in
	0) echo "nothing to change" ;;
	1) echo "done: 1 step" ;;
	*) echo "done: $changes steps" ;;
	esac
	for path in "${target_paths[@]}"; do
		block=$(entry "$path")
		name=$(basename "$(dirname "$(field "$block" maintainers)")")
		cat <<-TXT

			$path
			  people     $opt_etc/$name/   (maintainers, revoked_keys, agents)
			  mode       $(grep -E '^      (protected|topic): \{' <<<"$block" | sed -E 's/^ +//' | paste -sd ' ')
			  prove it   in a clone:  git checkout -b probe && mkdir -p oracles && date >oracles/probe
			                          git add oracles && git commit -m probe && git push origin HEAD:$(short_head "$path")
			             $(proof "$block")
		TXT
		judge_summary "$path" "$name" "$block"
	done
	cat <<-TXT

		gate.yaml    $gate_file
		records      $state_dir
		check        $opt_prefix/prereceive doctor --config $gate_file
		uninstall    $(again PATH) --uninstall
	TXT
	examine
}

# examine asks the doctor whether the gate is on. What it finds is for the admin to
# read: everything that was to be done here is done.
examine() {
	echo
	"$opt_prefix/prereceive" doctor --config "$gate_file" | grep -v '^ok ' || true
}

# proof ENTRY says what the push to try does in the entry's mode.
proof() {
	case $(mode_of "$1" protected paths) in
	warn) echo "it passes, and the answer warns that no maintainer has approved it" ;;
	record | off) echo "it passes without a word; prereceive status shows that it would not" ;;
	*) echo "it is refused (no maintainer has approved it), and the branch stays where it is" ;;
	esac
}

short_head() {
	local ref
	ref=$(head_ref "$1")
	printf '%s' "${ref#refs/heads/}"
}

# again PATH prints how the installer is called for a repository, with the places
# that it needs.
again() {
	printf 'scripts/install.sh --repo %q' "$1"
	[[ $opt_prefix == /usr/local/lib/sealgate ]] || printf ' --prefix %q' "$opt_prefix"
	[[ $opt_etc == /etc/sealgate ]] || printf ' --etc %q' "$opt_etc"
	[[ $opt_var == /var/lib/sealgate ]] || printf ' --var %q' "$opt_var"
	[[ $opt_hookd_user == sealgate ]] || ! is_root || printf ' --hookd-user %q' "$opt_hookd_user"
}

# judge_summary PATH NAME ENTRY says what replays are judged by, and what is next.
judge_summary() {
	local path=$1 how replay what by guide=docs/first-seal.md seal=yes
	[[ $(field "$3" replay) == true ]] || { echo "  replay     off: protected paths and oracle files alone are checked"; return; }
	replay=$(mode_of "$3" protected replay)
	[[ $(field "$3" seal) == true ]] || seal=no
	what="$opt_var/seals/$2" by="is locked"
	if [[ $seal == no ]]; then what="oracles/*.toml" by="judges" guide=docs/first-oracle.md; fi
	if can_judge "$2" "$path" "$seal"; then
		echo "  judged by  $what $by; replays: $replay"
	elif [[ $replay == enforce ]]; then
		cat <<-TXT
			  judged by  $what cannot judge yet: pushes to protected refs are not judged, and refused
			             begin it ($guide), or: $(again "$path") --mode record
		TXT
	else
		cat <<-TXT
			  judged by  $what cannot judge yet: replays are recorded, not enforced
			             begin it ($guide), then: $(again "$path") --mode enforce
		TXT
	fi
	[[ ! -S $run_dir/hookd.sock ]] || { echo "  hookd      serves on $run_dir/hookd.sock"; return; }
	how=$(start_command)
	printf '  hookd      is not running; start it as a service with:\n             %s\n' "$how"
}

# --- uninstall -----------------------------------------------------------

repo_uninstall() {
	local index everything=no line
	check_options
	if [[ ${#opt_repos[@]} == 0 && -z $opt_gitea ]]; then
		everything=yes
		[[ -f $gate_file ]] || die "there is no $gate_file: nothing is installed here"
		while IFS= read -r line; do
			[[ ! $line =~ ^[[:space:]]*-[[:space:]]+path:[[:space:]]*(.*)$ ]] || opt_repos+=("$(yaml_plain "${BASH_REMATCH[1]}")")
		done <"$gate_file"
	fi
	[[ $opt_dry_run == no ]] || echo "dry run: nothing is changed"
	find_targets
	for index in "${!target_paths[@]}"; do
		switch_off "${target_paths[index]}"
	done
	[[ $everything == no ]] || remove_programs
	echo
	if [[ $changes == 0 ]]; then echo "nothing to change"; fi
	cat <<-TXT
		Kept: $opt_etc (configuration, keys) and $opt_var (records, packets, sealed trees).
		Installing again takes them up; refs that moved in between are named, and
		  $opt_prefix/prereceive adopt --config $gate_file --repo ID REF
		takes a ref as it stands. To remove everything: rm -r $(printf '%q ' "$opt_etc" "$opt_var")
	TXT
}

switch_off() {
	local path=$1 dir hook
	echo "$path"
	dir=$path/hooks
	for hook in pre-receive post-receive; do
		! is_shim "$dir/$hook.d/sealgate" || step "remove $dir/$hook.d/sealgate" rm -f "$dir/$hook.d/sealgate"
		is_shim "$dir/$hook" || continue
		if [[ -e $dir/$hook.before-sealgate || -L $dir/$hook.before-sealgate ]]; then
			step "put back the hook $dir/$hook" mv -f "$dir/$hook.before-sealgate" "$dir/$hook"
		else
			step "remove $dir/$hook" rm -f "$dir/$hook"
		fi
	done
	! git_in "$path" rev-parse -q --verify refs/oracle/gate >/dev/null ||
		step "remove refs/oracle/gate" git_in "$path" update-ref -d refs/oracle/gate
}

remove_programs() {
	local program pid
	if [[ -f $unit_file && $opt_etc == /etc/sealgate ]]; then
		step "stop and remove sealgate-hookd.service" remove_unit
	fi
	if [[ -f $opt_var/hookd.pid ]]; then
		pid=$(cat "$opt_var/hookd.pid")
		[[ $(readlink "/proc/$pid/exe" 2>/dev/null) != "$opt_prefix/hookd"* ]] || step "stop hookd ($pid)" stop_plainly "$pid"
		step "remove $opt_var/hookd.pid" rm -f "$opt_var/hookd.pid"
	fi
	if [[ $(readlink /usr/local/bin/git-oracle || true) == "$opt_prefix/git-oracle" ]]; then
		step "remove /usr/local/bin/git-oracle" rm -f /usr/local/bin/git-oracle
		step "remove the manual page and the completion of git oracle" rm -f "$man_page" "$completion_file"
	fi
	for program in prereceive hookd git-oracle; do
		[[ ! -e $opt_prefix/$program ]] || step "remove $opt_prefix/$program" rm -f "$opt_prefix/$program"
	done
}

remove_unit() {
	systemctl disable -q --now sealgate-hookd.service 2>/dev/null || true
	rm -f "$unit_file"
	systemctl daemon-reload 2>/dev/null || true
}
