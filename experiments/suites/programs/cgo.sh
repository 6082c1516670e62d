#!/bin/sh
# Builds and runs a Go program that calls C.
set -eu
cp "$(dirname "$0")/cgo/main.go" .
export GO111MODULE=off GOFLAGS=-p=2 GOCACHE="${GOCACHE:-$HOME/.cache/go-build}"
CGO_ENABLED=1 go build -o program main.go
./program
