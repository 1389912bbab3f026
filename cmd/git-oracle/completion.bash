# Completion of git-oracle in bash; behind git's own completion also of
# "git oracle": git calls _git_oracle.

# __git_oracle_complete WORD… completes the last word; the others stand before it.
__git_oracle_complete() {
	local out directive line current=${*: -1}
	COMPREPLY=()
	out=$(git-oracle __complete "$@" 2>/dev/null) || return 0
	directive=${out##*:}
	out=${out%:*}
	while IFS=$'\t' read -r line _; do
		[[ -n $line && $line == "$current"* ]] || continue
		COMPREPLY+=("$line")
	done <<<"$out"
	# 2: no space after it; 4: no file names.
	((directive & 2)) && compopt -o nospace 2>/dev/null
	((directive & 4)) && compopt +o default 2>/dev/null
	return 0
}

_git_oracle() {
	local at=1
	# git's completion has the words in these variables.
	while ((at < cword)) && [[ ${words[at]} != oracle ]]; do
		at=$((at + 1))
	done
	__git_oracle_complete "${words[@]:at+1:cword-at}"
	# git's wrapper appends no space.
	((${#COMPREPLY[@]} != 1)) || [[ ${COMPREPLY[0]} == *= ]] || COMPREPLY[0]+=" "
}

__git_oracle_alone() {
	__git_oracle_complete "${COMP_WORDS[@]:1:COMP_CWORD}"
}

complete -o default -F __git_oracle_alone git-oracle
