# Pieces of the git host's files that the demo and the installer both write.
# shellcheck shell=bash

# public_key FILE prints a public key without its comment.
public_key() {
	local type blob rest
	read -r type blob rest <"$1" || [[ -n $blob ]] || die "read the public key $1"
	: "$rest"
	printf '%s %s' "$type" "$blob"
}

# signers_line NAME KEY prints a line of an allowed_signers file: the person may
# approve, override and withdraw, and the key counts for nothing else.
signers_line() {
	local name=$1 type blob rest
	[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._@+-]*$ ]] ||
		die "a maintainer's name is letters, digits and ._@+-: $(printf '%q' "$name")"
	read -r type blob rest <<<"$2"
	: "$rest"
	printf '%s namespaces="oracle-change-v1@sealgate,oracle-override-v1@sealgate,oracle-withdraw-v1@sealgate" %s %s\n' "$name" "$type" "$blob"
}

# hook_path is the PATH that the hook's programs get: where git is, and the
# system's own directories.
hook_path() {
	local dir
	dir=$(dirname "$(command -v git)")
	case $dir in
	/usr/local/bin | /usr/bin | /bin) printf '/usr/local/bin:/usr/bin:/bin' ;;
	*) printf '%s:/usr/local/bin:/usr/bin:/bin' "$dir" ;;
	esac
}

# fill_shim TEMPLATE NAME=VALUE… prints the shim with its empty values filled in.
fill_shim() {
	local template=$1 line pair name
	shift
	while IFS= read -r line; do
		for pair in "$@"; do
			name=${pair%%=*}
			[[ $line != "$name=''" ]] || line="$name=$(sh_quote "${pair#*=}")"
		done
		printf '%s\n' "$line"
	done <"$template"
}
