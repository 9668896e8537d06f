// Continues a text: go run ./examples/generate MODEL TEXT
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"

	"tuffet"
)

func generate(ctx context.Context, path, prompt string) error {
	model, err := tuffet.Open(path, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := model.NewSession(nil)
	if err != nil {
		return err
	}
	defer session.Close()
	sampler := tuffet.Sampler{Temperature: 0.8, MinP: 0.05, Seed: 1}
	text, err := session.Generate(ctx, prompt, math.MaxInt32, &sampler)
	if err != nil {
		return err
	}
	for text.Next() {
		fmt.Print(text.Text())
	}
	fmt.Println()
	return text.Err()
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate MODEL TEXT")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := generate(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
