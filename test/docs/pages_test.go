package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// page is a Markdown file.
type page struct {
	path   string
	text   string
	blocks []block
	// problems describes blocks that are not closed or not fenced.
	problems []string
}

// block is a fenced block. number is the line number of its opening fence, and before is the paragraph before the
// block.
type block struct {
	path     string
	number   int
	language string
	before   string
	text     string
}

const fence = "```"

// readPages reads README.md and docs/**/*.md of the repository.
func readPages(root string) ([]page, error) {
	paths := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if rel, relErr := filepath.Rel(root, path); relErr == nil && filepath.Ext(path) == ".md" {
			paths = append(paths, rel)
		}
		return err
	})
	pages := make([]page, 0, len(paths))
	for _, path := range paths {
		text, readErr := os.ReadFile(filepath.Join(root, path))
		err = errors.Join(err, readErr)
		pages = append(pages, parsePage(path, string(text)))
	}
	return pages, err
}

func parsePage(path, text string) page {
	p := page{path: path, text: text}
	var open *block
	var body, paragraph strings.Builder
	number, previous := 0, "\n"
	for line := range strings.Lines(text) {
		number++
		switch info, isFence := strings.CutPrefix(line, fence); {
		case isFence && open == nil:
			open = &block{path: path, number: number, language: strings.TrimSpace(info), before: paragraph.String()}
		case isFence:
			open.text = body.String()
			p.blocks = append(p.blocks, *open)
			if open.language == "console" && !strings.HasPrefix(open.text, "$ ") {
				p.problems = append(p.problems, fmt.Sprintf("%s:%d: the block does not begin with a command", path, number))
			}
			open = nil
			body.Reset()
		case open != nil:
			body.WriteString(line)
		case unfenced.MatchString(line):
			p.problems = append(p.problems, fmt.Sprintf("%s:%d: unfenced examples are not run: %s", path, number, line))
		case previous == "\n":
			paragraph.Reset()
			fallthrough
		default:
			paragraph.WriteString(line)
		}
		previous = line
	}
	if open != nil {
		p.problems = append(p.problems, fmt.Sprintf("%s:%d: the block does not end", path, open.number))
	}
	return p
}

// unfenced matches lines that should be in a fenced block.
var unfenced = regexp.MustCompile("^(\t|    +)(\\$ |make |kubectl |bin/|apiVersion:)|^ +```|^~~~")

var namespaceObject = regexp.MustCompile(`(?m)^kind: Namespace\nmetadata:(?: \{name: |\n  name: )([a-z0-9-]+)`)

// namespaces returns the namespaces that the page creates.
func (p page) namespaces() []string {
	var out []string
	for _, b := range p.blocks {
		for _, m := range namespaceObject.FindAllStringSubmatch(b.text, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// links returns the page's links to files.
func (p page) links() []string {
	var out []string
	for _, m := range link.FindAllStringSubmatch(p.text, -1) {
		out = append(out, m[1])
	}
	return out
}

// command is a command in a console block, with the output that the page shows for it.
type command struct {
	number     int
	line, want string
}

func (b block) commands() []command {
	var out []command
	number := b.number
	for line := range strings.Lines(b.text) {
		number++
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, command{number: number, line: strings.TrimSpace(text)})
		} else if len(out) > 0 {
			out[len(out)-1].want += line
		}
	}
	return out
}

const anything = "..."

// logged matches a line in the log format of Kubernetes. kubectl wait sometimes logs a line when its watch ends.
var logged = regexp.MustCompile(`(?m)^[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d{6} +\d+ [^ ]+\.go:\d+\] .*\n`)

// matches reports whether an output matches the expected one. It ignores log lines and trailing newlines.
func matches(want, got string) bool {
	return pattern(want).MatchString(logged.ReplaceAllString(strings.TrimRight(got, "\n")+"\n", ""))
}

func pattern(want string) *regexp.Regexp {
	var out strings.Builder
	for line := range strings.Lines(strings.TrimRight(want, "\n") + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if line == anything {
			out.WriteString(`(?:[^\n]*\n)*`)
			continue
		}
		parts := strings.Split(line, anything)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		out.WriteString(strings.Join(parts, `[^\n]*`) + `\n`)
	}
	return regexp.MustCompile(`^` + out.String() + `$`)
}

var makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+)(?: [a-z0-9-]+)*:`)

// checkNames verifies that the programs, make targets and files in a block exist in the repository.
func (b block) checkNames(root string) []string {
	var problems []string
	for line := range strings.Lines(b.text) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(line)
		for i, word := range words {
			if problem := b.checkWord(root, words, i); problem != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s %s", b.path, b.number, strings.TrimSpace(line), problem, word))
			}
		}
	}
	return problems
}

func (b block) checkWord(root string, words []string, i int) string {
	word := words[i]
	switch {
	case i == 0 && !slices.Contains([]string{"make", "kubectl"}, word) && !strings.HasPrefix(word, "bin/"):
		return "cannot verify that this program exists:"
	case i == 1 && words[0] == "make" && !slices.Contains(makeTargets(root), word):
		return "no make target"
	case inRepository(root, word) && !exists(root, word):
		return "no file"
	}
	return ""
}

func makeTargets(root string) []string {
	var out []string
	for _, file := range []string{"Makefile", "controlplane/build.mk"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil
		}
		for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// inRepository reports whether a word is a path in the repository.
func inRepository(root, word string) bool {
	first, _, ok := strings.Cut(strings.TrimPrefix(word, "./"), "/")
	return ok && first != "" && exists(root, first)
}

func exists(root, path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}
