package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/policy"
)

const maxPolicyFile = 1 << 20

// policyCommand is "hookd policy": reading the decision table.
func policyCommand(a *app) *cobra.Command {
	return group("policy", "read the decision table", policyPrint(a))
}

func policyPrint(a *app) *cobra.Command {
	var ch choice
	var file string
	c := &cobra.Command{
		Use:   "print",
		Short: "print the decision table: the built-in one, a repository's, or a file's",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			if file != "" && ch.repo != "" {
				return usage("give --file or --repo, not both")
			}
			name := file
			if ch.repo != "" {
				_, r, err := ch.repository()
				if err != nil {
					return err
				}
				name = r.Policy
			}
			if name == "" {
				_, err := a.stdout.Write(policy.DefaultYAML())
				return err
			}
			return a.printPolicy(name)
		},
	}
	ch.configFlags(c)
	c.Flags().StringVar(&file, "file", "", "check and print this file")
	return c
}

// printPolicy prints a table as it will be applied, after it was checked.
func (a *app) printPolicy(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read decision table: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPolicyFile))
	if err != nil {
		return fmt.Errorf("read decision table: %w", err)
	}
	t, err := policy.Parse(name, data)
	if err != nil {
		return fail(exitNotOK, "hookd policy print shows the built-in table", "%w", err)
	}
	_, err = a.stdout.Write(t.YAML())
	return err
}
