package main

import (
	"context"
	_ "embed"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// bashCompletion works for git-oracle, and for git oracle behind git's own
// completion.
//
//go:embed completion.bash
var bashCompletion string

func (a *app) completionVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash | zsh | fish",
		Short: "print what lets a shell complete verbs, options and refs",
		Long: `Prints a script for the shell. For bash, it completes git oracle behind git's own
completion as well:

  git oracle completion bash > ~/.local/share/bash-completion/completions/git-oracle
  git oracle completion zsh > "${fpath[1]}/_git-oracle"
  git oracle completion fish > ~/.config/fish/completions/git-oracle.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("completion wants the name of a shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				_, err := a.stdout.Write([]byte(bashCompletion))
				return err
			case "zsh":
				return cmd.Root().GenZshCompletion(a.stdout)
			case "fish":
				return cmd.Root().GenFishCompletion(a.stdout, true)
			}
			return usage("%q is no shell that this knows: bash, zsh or fish", args[0])
		},
	}
}

// completing has every verb that takes a revision or ref offer those of the clone.
// No remote is asked.
func completing(cmd *cobra.Command) {
	for _, verb := range cmd.Commands() {
		completing(verb)
		if strings.Contains(verb.Use, "REV") || strings.Contains(verb.Use, "BASE") {
			verb.ValidArgsFunction = completeRefs
		}
		for _, name := range []string{"for", "from", "commit"} {
			if verb.Flags().Lookup(name) != nil {
				// It fails only where the flag is not there, or has one already.
				_ = verb.RegisterFlagCompletionFunc(name, completeRefs)
			}
		}
		if verb.Flags().Lookup("remote") != nil {
			_ = verb.RegisterFlagCompletionFunc("remote", completeRemotes)
		}
	}
}

func completeRefs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completions(cmd.Context(), "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
}

func completeRemotes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completions(cmd.Context(), "remote")
}

func completions(ctx context.Context, args ...string) ([]string, cobra.ShellCompDirective) {
	c := &clone{env: meaningfulEnv(os.Environ()), stdin: strings.NewReader("")}
	out, err := c.line(ctx, args...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return strings.Fields(out), cobra.ShellCompDirectiveNoFileComp
}
