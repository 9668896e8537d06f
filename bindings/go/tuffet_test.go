// With the model that ships, or the one that TUFFET_TEST_MODEL names.
package tuffet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

const prompt = "Once upon a time"

var background = context.Background()

func modelPath() string {
	if path := os.Getenv("TUFFET_TEST_MODEL"); path != "" {
		return path
	}
	return "../../models/demo/stories2M.gguf"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, got, want interface{}) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, not %v", got, want)
	}
}

func fails(t *testing.T, err error, want Status, part string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), part) {
		t.Fatalf("%v, not %v with %q", err, want, part)
	}
}

func open(t *testing.T) *Model {
	t.Helper()
	model, err := Open(modelPath(), nil)
	must(t, err)
	t.Cleanup(func() { must(t, model.Close()) }) // after its sessions: last in, first out
	return model
}

func begin(t *testing.T, model *Model, options *SessionOptions) *Session {
	t.Helper()
	session, err := model.NewSession(options)
	must(t, err)
	t.Cleanup(session.Close)
	return session
}

func tokens(t *testing.T, model *Model, text string, flags Flags) []int32 {
	t.Helper()
	ids, err := model.Tokenize(text, flags)
	must(t, err)
	return ids
}

func generate(s *Session, text string, n int, z *Sampler) (string, error) {
	g, err := s.Generate(background, text, n, z)
	if err != nil {
		return "", err
	}
	out := ""
	for g.Next() {
		out += g.Text()
	}
	return out, g.Err()
}

// TUFFET_PROGRAM is the program of the same build.
func program(t *testing.T, args ...string) string {
	t.Helper()
	path := os.Getenv("TUFFET_PROGRAM")
	if path == "" {
		t.Skip("TUFFET_PROGRAM is not set")
	}
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

func TestTextIsThatOfTheProgram(t *testing.T) {
	session := begin(t, open(t), nil)
	for _, z := range []Sampler{
		{RepeatPenalty: 1},
		{Temperature: 1.3, Seed: 7},
		{Temperature: 1.3, Seed: 11, MinP: 0.3},
		{Temperature: 1.5, TopK: 40, TopP: 0.7, MinP: 0.02},
		{RepeatPenalty: 1.3, RepeatLast: 20},
	} {
		// there, 0 is the most likely token, and no recent one
		topP, last := z.TopP, z.RepeatLast
		if topP == 0 {
			topP = 1
		}
		if last == 0 {
			last = 64
		}
		options := fmt.Sprintf("--temp %v --seed %v --top-k %v --top-p %v --min-p %v "+
			"--repeat-penalty %v --repeat-last %v", z.Temperature, z.Seed, z.TopK, topP, z.MinP,
			z.RepeatPenalty, last)
		text, err := generate(session, prompt, 60, &z)
		must(t, err)
		if len(text) < 60 {
			t.Fatalf("%q", text)
		}
		args := append([]string{"run", modelPath(), "-p", prompt, "-n", "60"},
			strings.Fields(options)...)
		is(t, strings.TrimSpace(text), strings.TrimSpace(program(t, args...)))
	}
}

func TestTheExampleTellsAStory(t *testing.T) {
	path, err := filepath.Abs(modelPath())
	must(t, err)
	story := filepath.Join(t.TempDir(), "story")
	must(t, exec.Command("go", "build", "-o", story, "./examples/generate").Run())
	out, err := exec.Command(story, path, prompt).Output()
	must(t, err)
	session := begin(t, open(t), nil)
	text, err := generate(session, prompt, math.MaxInt32,
		&Sampler{Temperature: 0.8, MinP: 0.05, Seed: 1})
	must(t, err)
	is(t, string(out), text+"\n")
	if exec.Command(story, "/no/such", "x").Run() == nil {
		t.Fatal("no error without a model")
	}
}

func TestASpaceInFrontOfAWordStays(t *testing.T) {
	text, err := generate(begin(t, open(t), nil), "Once upon a", 1, &Sampler{})
	must(t, err)
	is(t, text, " time")
}

func TestWhatAPrefixHoldsIsNotFed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prefix.gguf")
	program(t, "quantize", modelPath(), "-o", file, "--calib-tokens", "512", "--intact", "bos",
		"--template", "chatml", "--intact-system", "short=Be short.")
	model, err := Open(file, nil)
	must(t, err)
	defer model.Close()
	is(t, model.Info().Prefix, 1)
	text := "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nOnce"
	pos := func(prefix string) int {
		session, err := model.NewSession(&SessionOptions{Prefix: prefix})
		must(t, err)
		defer session.Close()
		out, err := generate(session, text, 0, &Sampler{})
		must(t, err)
		is(t, out, "")
		return session.Pos()
	}
	// the prefix has what conversations begin with: all but "Once"
	is(t, pos("short"), len(tokens(t, model, "Once", Continue)))
	if pos("") <= 10 {
		t.Fatal("the model's own prefix holds the text")
	}
	_, err = model.NewSession(&SessionOptions{Prefix: "no-such"})
	fails(t, err, Argument, "no-such")
}

func TestTokensAreTextAgain(t *testing.T) {
	model := open(t)
	ids := tokens(t, model, prompt, AddBOS)
	is(t, ids[0], model.BOS())
	is(t, model.Detokenize(ids), prompt)
	is(t, tokens(t, model, prompt, 0), ids[1:])
	is(t, model.TokenEnds(model.EOS()), true)
	is(t, model.TokenEnds(ids[1]), false)
	// characters that are not in the vocabulary are a token for each byte
	for _, text := range []string{"", "\u00ff", strings.Repeat("\U0001F600", 30)} {
		is(t, model.Detokenize(tokens(t, model, text, AddBOS)), text)
	}
	bytes := tokens(t, model, "\u00ff", Continue) // -1 is no token, and does not end the text
	is(t, model.Detokenize([]int32{bytes[0], -1, bytes[1]}), "\u00ff")
	is(t, tokens(t, model, "</s>", ParseSpecial)[0], model.EOS())
	for _, id := range tokens(t, model, "</s>", 0) {
		is(t, id == model.EOS(), false)
	}
}

func TestLogitsDoNotDependOnHowTokensCome(t *testing.T) {
	model := open(t)
	info := model.Info()
	is(t, []interface{}{info.Arch, info.Layers, info.Vocab}, []interface{}{"llama", 8, 2944})
	ids := tokens(t, model, "Once upon a time, there was a cat", AddBOS)
	atOnce := begin(t, model, &SessionOptions{Logits: 2, Hidden: 1, Threads: 1})
	is(t, atOnce.LogitsOf(0) == nil, true)
	is(t, math.IsNaN(float64(atOnce.Logprob(1))), true)
	must(t, atOnce.Prefill(background, ids))
	oneByOne := begin(t, model, nil)
	for _, id := range ids {
		must(t, oneByOne.Decode(id))
	}
	logits, before := atOnce.LogitsOf(0), atOnce.LogitsOf(1)
	is(t, len(logits), info.Vocab)
	is(t, logits, oneByOne.LogitsOf(0))
	is(t, len(atOnce.HiddenOf(0)), info.Embedding)
	is(t, atOnce.LogitsOf(2) == nil && oneByOne.HiddenOf(0) == nil, true)
	is(t, atOnce.LogitsOf(-1) == nil && atOnce.HiddenOf(-1) == nil, true)
	is(t, oneByOne.Tokens(), ids)

	first := 0
	for i := range logits {
		if logits[i] > logits[first] {
			first = i
		}
	}
	likeliest := atOnce.Likeliest(3)
	is(t, []int{len(likeliest), int(likeliest[0].ID)}, []int{3, first})
	is(t, atOnce.Logprob(likeliest[0].ID), likeliest[0].Logprob)
	is(t, atOnce.Sample(&Sampler{}), int32(first))
	is(t, len(atOnce.Likeliest(math.MaxInt)), info.Vocab)

	must(t, atOnce.Rewind(len(ids)-1))
	is(t, atOnce.Pos(), len(ids)-1)
	is(t, atOnce.Sample(&Sampler{}), int32(-1))
	must(t, atOnce.Sync(background, ids[:len(ids)-1]))
	is(t, atOnce.LogitsOf(0), before)
}

func TestGuessesChangeNothingButTime(t *testing.T) {
	model := open(t)
	guessing := begin(t, model, &SessionOptions{Lookup: 8, Threads: 1})
	plain := begin(t, model, nil)
	for i := 0; i < 60; i++ {
		id := int32(5 + i%3)
		must(t, guessing.Decode(id))
		must(t, plain.Decode(id))
		is(t, guessing.LogitsOf(0), plain.LogitsOf(0))
	}
	is(t, plain.Guessed(), uint64(0))
	is(t, guessing.Guessed() > 20, true)
}

func TestFurtherStepsHaveAnEffect(t *testing.T) {
	session := begin(t, open(t), nil)
	text := func(z Sampler) string {
		z.Temperature, z.Seed = 1.3, 7
		out, err := generate(session, prompt, 60, &z)
		must(t, err)
		is(t, z.MirostatMu != 0, z.More != nil && z.More.MirostatTau > 0)
		return out
	}
	plain := text(Sampler{})
	is(t, text(Sampler{More: &More{DryBase: 2}}), plain)
	for _, more := range []More{
		{XTCProbability: 1},
		{DryMultiplier: 3, DryAllowedLength: 1, DryBreakers: []int32{3, 5}},
		{TypicalP: 0.2},
		{MirostatTau: 1},
	} {
		is(t, text(Sampler{More: &more}) != plain, true)
	}
}

func TestSavedAndCopiedSessionsGoOnAlike(t *testing.T) {
	model := open(t)
	session, copied, loaded := begin(t, model, nil), begin(t, model, nil), begin(t, model, nil)
	z := Sampler{Temperature: 0.9, TopK: 50, TopP: 0.9, MinP: 0.01, RepeatPenalty: 1.1,
		RepeatLast: 9, Seed: 3}
	_, err := generate(session, prompt, 10, &z)
	must(t, err)
	file := filepath.Join(t.TempDir(), "talk.session")
	must(t, session.Save(&z, file))
	must(t, copied.CopyFrom(session))
	var again Sampler
	must(t, loaded.Load(&again, file))
	is(t, again, z)
	is(t, copied.LogitsOf(0), session.LogitsOf(0))
	is(t, loaded.Tokens(), session.Tokens())
	is(t, loaded.Sample(&again), session.Sample(&z))
	must(t, os.Remove(file))
	fails(t, loaded.Load(&again, file), IO, file)
	is(t, loaded.Tokens(), session.Tokens())
}

// late is a context that is done after its first Err: what a call sees while it computes.
type late struct {
	context.Context
	asked bool
}

func (c *late) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return c.Context.Err()
}

func TestAContextEndsAPass(t *testing.T) {
	session := begin(t, open(t), nil)
	ids := make([]int32, 100)
	for i := range ids {
		ids[i] = int32(10 + i)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	is(t, session.Prefill(ctx, ids), context.Canceled)
	is(t, session.Pos(), 0)

	is(t, session.Prefill(&late{Context: ctx}, ids), context.Canceled)
	is(t, session.Pos(), 0)
	is(t, session.LogitsOf(0) == nil, true)

	must(t, session.Prefill(background, ids)) // and goes on
	is(t, session.Pos(), 100)

	// A context counts for its call alone. Behind the rewind, Decode computes 50 tokens again.
	ctx, cancel = context.WithCancel(background)
	quantized := begin(t, session.model, &SessionOptions{KV: "kivi:window=32"})
	must(t, quantized.Prefill(ctx, ids))
	cancel()
	must(t, quantized.Rewind(50))
	must(t, quantized.Decode(1))
	is(t, quantized.Pos(), 51)

	ctx, cancel = context.WithCancel(background)
	g, err := session.Generate(ctx, prompt, 50, &Sampler{})
	must(t, err)
	is(t, g.Next(), true)
	cancel()
	is(t, g.Next(), false)
	is(t, g.Err(), context.Canceled)
}

func TestSessionsOfSeveralGoroutinesShareAModel(t *testing.T) {
	model := open(t)
	var group sync.WaitGroup
	texts := make([]string, 3)
	for i := range texts {
		session := begin(t, model, nil)
		group.Add(1)
		go func(i int) {
			defer group.Done()
			texts[i], _ = generate(session, prompt, 20, &Sampler{})
		}(i)
	}
	group.Wait()
	is(t, len(texts[0]) > 20, true)
	is(t, texts, []string{texts[0], texts[0], texts[0]})
}

func TestErrorsAreValues(t *testing.T) {
	_, err := Open("/no/such/file.gguf", nil)
	fails(t, err, IO, "/no/such/file.gguf")
	var e *Error
	is(t, errors.As(err, &e) && e.OS == 2, true)
	for _, path := range []string{"", "a\x00b"} {
		_, err = Open(path, nil)
		fails(t, err, Argument, "path")
	}
	_, err = Open("go.mod", nil)
	fails(t, err, Format, "go.mod")
	for _, options := range []ModelOptions{{Threads: -1}, {Threads: math.MaxInt}, {Weights: 99}} {
		_, err = Open(modelPath(), &options)
		fails(t, err, Argument, "")
	}
	_, err = Open(modelPath(), &ModelOptions{Device: "no-such"})
	fails(t, err, Argument, "no-such")

	model := open(t)
	session := begin(t, model, &SessionOptions{Capacity: 8})
	is(t, session.Capacity(), 8)
	fails(t, session.Prefill(background, make([]int32, 9)), Full, "")
	fails(t, session.Prefill(background, []int32{-1}), Argument, "")
	fails(t, session.Prefill(background, nil), Argument, "")
	fails(t, session.Rewind(1), Argument, "")
	fails(t, session.Rewind(-1), Argument, "-1")
	is(t, session.Pos(), 0)
	text, err := generate(session, prompt, 100, &Sampler{})
	must(t, err)
	is(t, text != "" && session.Pos() == 8, true) // it ends where the session is full
	_, err = model.NewSession(&SessionOptions{KV: "no-such"})
	fails(t, err, Argument, "no-such")
	_, err = model.NewSession(&SessionOptions{Batch: 4, Logits: 5})
	fails(t, err, Argument, "")

	sliding := begin(t, model, &SessionOptions{Capacity: 64, Slide: true})
	for id := int32(10); id < 110; id++ {
		must(t, sliding.Decode(id))
	}
	is(t, sliding.Pos() <= 64, true)
	bare := begin(t, model, &SessionOptions{Hidden: 1, NoLogits: true})
	must(t, bare.Decode(10))
	is(t, bare.LogitsOf(0) == nil && bare.HiddenOf(0) != nil, true)

	words, err := Open(modelPath(), &ModelOptions{VocabOnly: true, Weights: F32})
	must(t, err)
	defer words.Close()
	is(t, tokens(t, words, prompt, AddBOS), tokens(t, model, prompt, AddBOS))
	_, err = words.NewSession(nil)
	fails(t, err, Argument, "")
}

func TestWhatIsClosedFails(t *testing.T) {
	model, err := Open(modelPath(), nil)
	must(t, err)
	session, err := model.NewSession(nil)
	must(t, err)
	fails(t, model.Close(), Argument, "open sessions: 1")
	g, err := session.Generate(background, prompt, 9, &Sampler{})
	must(t, err)
	session.Close()
	session.Close()
	is(t, g.Next(), false)
	fails(t, g.Err(), Argument, "closed")
	fails(t, session.Decode(1), Argument, "closed")
	fails(t, session.Prefill(background, []int32{1}), Argument, "closed")
	is(t, session.Pos(), 0)
	is(t, session.LogitsOf(0) == nil && session.Tokens() == nil, true)
	must(t, model.Close())
	must(t, model.Close())
	_, err = model.NewSession(nil)
	fails(t, err, Argument, "closed")
	_, err = model.Tokenize("x", 0)
	fails(t, err, Argument, "closed")
	is(t, model.EOS(), int32(-1))
}
