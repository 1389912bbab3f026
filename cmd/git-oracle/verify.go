package main

import "github.com/spf13/cobra"

func (a *app) verifyVerb() *cobra.Command {
	return &cobra.Command{Use: "verify [REV]"}
}
