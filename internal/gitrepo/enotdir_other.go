//go:build !unix

package gitrepo

func isNotDirectory(error) bool { return false }
