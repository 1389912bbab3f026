//go:build !unix

package gitrepo

func cannotBe(error) bool { return false }
