package story

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// script is the story as a shell script: it makes the repository below a new
// directory, starts the hook of $PRERECEIVE as receive-pack would, and prints what
// comes of every push.
func (s *story) script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/usr/bin/env bash\n# Story %d.\n%s", s.seed, scriptHead)
	format := "sha1"
	if s.sha256 {
		format = "sha256"
	}
	fmt.Fprintf(&b, "git init -q --bare --object-format=%s -b nowhere shop.git\ncd shop.git\nzero=$(git hash-object --stdin </dev/null | tr 0-9a-f 0)\n\n", format)
	st := &store{wide: s.sha256, raw: map[string][]byte{}}
	digests := s.digests(st)
	needed := s.needed()
	for _, n := range s.grantsNeeded(needed) {
		s.scriptGrant(&b, st, n, digests)
	}
	for i, o := range s.objects {
		if needed[i] {
			s.scriptObject(&b, st, i, o)
		}
	}
	b.WriteString("\nprotected=(\n")
	for _, ref := range s.protected {
		base := "none"
		if s.baseline[ref] != none {
			base = "$" + spell(s.baseline[ref])
		}
		fmt.Fprintf(&b, "\t%s \"%s\"\n", ref, base)
	}
	b.WriteString(")\n")
	for _, ref := range slices.Sorted(maps.Keys(s.refs)) {
		fmt.Fprintf(&b, "hand %s %s\n", ref, word(s.refs[ref]))
	}
	b.WriteString("install\n\n")
	for _, e := range s.events {
		s.scriptEvent(&b, e)
	}
	b.WriteString("git for-each-ref --format='%(refname) %(objectname)'\n")
	return b.String()
}

// scriptHead has what every script needs.
const scriptHead = `set -euo pipefail
PRERECEIVE=${PRERECEIVE:-prereceive}
dir=$(mktemp -d)
cd "$dir"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_INDEX_FILE=$dir/index TZ=UTC LC_ALL=C
export GIT_AUTHOR_NAME=Dev GIT_AUTHOR_EMAIL=dev@example.org GIT_COMMITTER_NAME=Dev GIT_COMMITTER_EMAIL=dev@example.org
id=3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21
ssh-keygen -q -t ed25519 -N '' -C '' -f maintainer
ssh-keygen -q -t ed25519 -N '' -C '' -f stranger

when() { date -u -d "@$(($(date +%s) + $1))" +%Y-%m-%dT%H:%M:%SZ; }
b64() { base64 -w0 | tr '+/' '-_' | tr -d =; }

# grant NAME KEY SIGNED-PREFIX: a token of the statement on standard input.
grant() {
	local hash
	cat >"$dir/statement"
	{ printf %s "$3"; cat "$dir/statement"; } >"$dir/signed"
	rm -f "$dir/signed.sig"
	ssh-keygen -q -Y sign -f "$dir/$2" -n oracle-change-v1@sealgate "$dir/signed" 2>/dev/null
	printf -v "token_$1" %s "v1.$(b64 <"$dir/statement").$(grep -v -- ----- "$dir/signed.sig" | tr -d '\n' | base64 -d | b64)."
	hash=$(sha256sum <"$dir/statement" | cut -d' ' -f1)
	printf -v "ref_$1" %s "refs/oracle/approvals/$hash"
	printf -v "ref_w$1" %s "refs/oracle/withdrawals/$hash"
	local token=token_$1
	printf -v "blob_$1" %s "$(printf '%s\n' "${!token}" | git hash-object -w --stdin)"
	printf 'oracle-change withdrawal v1\nrepo: %s\napproval: sha256:%s\nreason: a step taken back\nissued: %s\nnonce: AAAAAAAAAAAAAAAAAAAAAA\n' \
		"$id" "$hash" "$(when -3600)" >"$dir/statement"
	rm -f "$dir/statement.sig"
	ssh-keygen -q -Y sign -f "$dir/maintainer" -n oracle-withdraw-v1@sealgate "$dir/statement" 2>/dev/null
	printf -v "blob_w$1" %s "$(printf 'v1.%s.%s.\n' "$(b64 <"$dir/statement")" "$(grep -v -- ----- "$dir/statement.sig" | tr -d '\n' | base64 -d | b64)" | git hash-object -w --stdin)"
}

# commit NAME DATE MESSAGE PARENT...: of the files on standard input, "mode path body".
commit() {
	local name=$1 date=$2 message=$3 mode path body oid parents=()
	shift 3
	for p in "$@"; do parents+=(-p "$p"); done
	rm -f "$GIT_INDEX_FILE"
	while read -r mode path body; do
		if [[ $mode == 160000 ]]; then oid=$path path=$body; else oid=$(printf %b "$body" | git hash-object -w --stdin); fi
		git update-index --add --cacheinfo "$mode,$oid,$path"
	done
	export GIT_AUTHOR_DATE="@$date +0000" GIT_COMMITTER_DATE="@$date +0000"
	printf -v "$name" %s "$(git commit-tree "$(git write-tree)" "${parents[@]}" <<<"$message")"
}

# install writes gate.yaml, and records that are two hours old.
install() {
	{
		printf 'maintainer '
		cat "$dir/maintainer.pub"
	} >"$dir/maintainers"
	: >"$dir/revoked" && : >"$dir/agents"
	{
		printf 'version: 1\nstate: %s\nrepositories:\n  - path: %s\n    id: %s\n    contact: nobody\n    protected:\n' "$dir/state" "$dir/shop.git" "$id"
		printf '      - ref: %s\n        baseline: %s\n' "${protected[@]}"
		printf '      - pattern: refs/heads/release/**\n    paths:\n      protected: [rules/, freeze.json]\n'
		printf '    maintainers: %s\n    revoked_keys: %s\n    agents: %s\n' "$dir/maintainers" "$dir/revoked" "$dir/agents"
	} >"$dir/gate.yaml"
	mkdir -p "$dir/state/$id/refs"
	printf '%s\n' "$(when -7200)" >"$dir/state/$id/begun"
	set -- "${protected[@]}"
	while (($#)); do
		printf '{"version": 1, "ref": "%s", "begun": "%s", "good": {"commit": "%s", "at": "%s"}}\n' \
			"$1" "$(when -7200)" "${2/none/}" "$(when -7200)" >"$dir/state/$id/refs/$(printf %s "$1" | sha256sum | cut -d' ' -f1).json"
		shift 2
	done
}

value() { git rev-parse -q --verify "$1" || printf %s "$zero"; }
hand() { if [[ -z $2 || $2 == "$zero" ]]; then git update-ref -d "$1"; else git update-ref "$1" "$2"; fi; }

# push NAME REF OLD NEW ...: OLD "=" is what is so. Where it stays, it keeps a quarantine
# until it ends.
push() {
	local name=$1 ref old
	shift
	: >"$dir/push_$name"
	while (($#)); do
		ref=$1 old=$2
		[[ $old != = ]] || old=$(value "$ref")
		printf '%s %s %s\n' "$old" "$3" "$ref" >>"$dir/push_$name"
		shift 3
	done
	: >"$dir/landed_$name"
	export GIT_DIR=.
	if [[ ${stays-} == yes ]]; then
		mkdir "$PWD/objects/tmp_objdir-incoming-$name"
		export GIT_QUARANTINE_PATH=$PWD/objects/tmp_objdir-incoming-$name
		export GIT_OBJECT_DIRECTORY=$GIT_QUARANTINE_PATH GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/objects
	fi
	if "$PRERECEIVE" --config "$dir/gate.yaml" --repo "$id" <"$dir/push_$name" 2>&1 | sed 's/^/    /'; then
		printf 'push %s: accepted\n' "$name"
	else
		printf 'push %s: refused\n' "$name"
		: >"$dir/push_$name"
	fi
	unset GIT_DIR GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
}
# ends NAME: its receive-pack goes, and what it has not moved stays.
ends() { rm -rf "objects/tmp_objdir-incoming-$1" && : >"$dir/push_$1"; }
# land NAME LINE...: the refs of these lines move.
land() {
	local name=$1 line old new ref
	shift
	for line in "$@"; do
		read -r old new ref < <(sed -n "${line}p" "$dir/push_$name") || continue
		if [[ $new == "$zero" ]]; then git update-ref -d "$ref" "$old" 2>/dev/null || continue; else git update-ref "$ref" "$new" "$old" 2>/dev/null || continue; fi
		printf '%s %s %s\n' "$old" "$new" "$ref" >>"$dir/landed_$name"
	done
}
settle() { [[ ! -s $dir/landed_$1 ]] || "$PRERECEIVE" settle --config "$dir/gate.yaml" --repo "$id" <"$dir/landed_$1"; }
open() { "$PRERECEIVE" open --config "$dir/gate.yaml" --repo "$id" --after "$2" --for "$3" --reason "a story wants it" "$1" >/dev/null || :; }
adopt() { [[ $(value "$1") == "$zero" ]] || "$PRERECEIVE" adopt "$1" --config "$dir/gate.yaml" --repo "$id" >/dev/null; }

`

// word is an object as the script names it.
func word(obj int) string {
	if obj == none {
		return `"$zero"`
	}
	return `"$` + spell(obj) + `"`
}

func (s *story) grantsNeeded(objects map[int]bool) []int {
	out := map[int]bool{}
	for i, o := range s.objects {
		for _, n := range o.tokens {
			out[n] = out[n] || objects[i]
		}
	}
	for _, e := range s.events {
		refs := []string{e.ref}
		for _, u := range e.updates {
			refs = append(refs, u.ref)
		}
		for _, ref := range refs {
			if n, ok := approvalOf(ref); ok {
				out[n] = true
			}
			if n, ok := withdrawalOf(ref); ok {
				out[n] = true
			}
		}
	}
	maps.DeleteFunc(out, func(_ int, needed bool) bool { return !needed })
	return slices.Sorted(maps.Keys(out))
}

func (s *story) scriptGrant(b *strings.Builder, st *store, n int, digests digests) {
	g := s.grants[n]
	key, prefix := "maintainer", "''"
	if g.fault == stranger {
		key = "stranger"
	}
	if g.fault == badSignature {
		prefix = "x"
	}
	text := string(st.statement(g, repoID, digests, time.Unix(0, 0)))
	for _, at := range []int{g.issued, g.issued + g.life} {
		stamp := time.Unix(int64(at), 0).UTC().Format("2006-01-02T15:04:05Z")
		text = strings.Replace(text, ": "+stamp, fmt.Sprintf(": $(when %d)", at), 1)
	}
	note := ""
	if g.fault != sound {
		note = " # " + faultNames[g.fault]
	}
	fmt.Fprintf(b, "grant %d %s %s <<EOF%s\n%sEOF\n", n, key, prefix, note, text)
}

func (s *story) scriptObject(b *strings.Builder, st *store, i int, o object) {
	switch o.kind {
	case tagKind:
		fmt.Fprintf(b, "%s=$(printf 'object %%s\\ntype commit\\ntag t%d\\ntagger Dev <dev@example.org> 1700000000 +0000\\n\\nt%d\\n' %s | git mktag)\n",
			spell(i), i, i, word(o.parents[0]))
		return
	case treeKind:
		fmt.Fprintf(b, "%s=$(git rev-parse \"$%s^{tree}\")\n", spell(i), spell(o.parents[0]))
		return
	default:
	}
	text := "'" + spell(i) + "'"
	if len(o.tokens) > 0 {
		text += `$'\n'`
	}
	for _, n := range o.tokens {
		text += fmt.Sprintf(`$'\nOracle-Change-Signature: '"$token_%d"`, n)
	}
	fmt.Fprintf(b, "commit %s %d %s", spell(i), 1_700_000_000+o.date*60, text)
	for _, p := range o.parents {
		b.WriteString(" " + word(p))
	}
	b.WriteString(" <<'EOF'\n")
	for _, path := range slices.Sorted(maps.Keys(o.tree)) {
		f := o.tree[path]
		if f.mode == "160000" {
			fmt.Fprintf(b, "160000 %s %s\n", st.module(f.body), path)
			continue
		}
		fmt.Fprintf(b, "%s %s %s\n", f.mode, path, strings.ReplaceAll(f.body, "\n", `\n`))
	}
	b.WriteString("EOF\n")
}

func (s *story) scriptEvent(b *strings.Builder, e event) {
	ref := func(ref string) (string, string) {
		if n, ok := approvalOf(ref); ok {
			return fmt.Sprintf(`"$ref_%d"`, n), fmt.Sprintf(`"$blob_%d"`, n)
		}
		if n, ok := withdrawalOf(ref); ok {
			return fmt.Sprintf(`"$ref_w%d"`, n), fmt.Sprintf(`"$blob_w%d"`, n)
		}
		return ref, ""
	}
	switch e.deed {
	case pushes:
		if e.stays {
			b.WriteString("stays=yes ")
		}
		fmt.Fprintf(b, "push %d", e.id)
		for _, u := range e.updates {
			name, blob := ref(u.ref)
			old, to := "=", word(u.new)
			if u.old != nil {
				old = word(*u.old)
			}
			if blob != "" && u.new != none {
				to = blob
			}
			fmt.Fprintf(b, " %s %s %s", name, old, to)
		}
		b.WriteString("\n")
		lines := ""
		for i := range e.updates {
			if i < len(e.land) && e.land[i] {
				lines += fmt.Sprintf(" %d", i+1)
			}
		}
		if lines != "" {
			fmt.Fprintf(b, "land %d%s\n", e.id, lines)
		}
		if e.settle {
			fmt.Fprintf(b, "settle %d\n", e.id)
		}
	case lands:
		fmt.Fprintf(b, "land %d %d\n", e.push, e.only+1)
	case settles:
		fmt.Fprintf(b, "settle %d\n", e.push)
	case ends:
		fmt.Fprintf(b, "ends %d\n", e.push)
	case byHand:
		name, blob := ref(e.ref)
		to := word(e.to)
		if blob != "" && e.to != none {
			to = blob
		}
		fmt.Fprintf(b, "hand %s %s\n", name, to)
	case adopts:
		fmt.Fprintf(b, "adopt %s\n", e.ref)
	case opens:
		fmt.Fprintf(b, "open %s %s %ds\n", e.ref, (&store{wide: s.sha256, raw: map[string][]byte{}}).digest(s.objects[e.to].tree), e.seconds)
	case waits:
		fmt.Fprintf(b, "sleep %d\n", e.seconds)
	}
}
