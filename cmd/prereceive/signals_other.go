//go:build !unix

package main

import "os"

var stopping = []os.Signal{os.Interrupt}
