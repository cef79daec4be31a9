package measure

import (
	"go/token"
	"go/types"
	"math/rand/v2"
	"path"
	"slices"
)

// Graph is a package seen as a house: its files are rooms, and an arrow leads from a file to each
// other file that declares something it uses, of the package's scope or a method.
//
// The rooms stand on floors so that as few arrows as possible lead up. To find the fewest is the
// minimum feedback arc set, which is hard; this is an approximation. Only arrows inside a strongly
// connected component can be among them, so each component is ordered by itself: from 300 orders,
// drawn with a fixed seed, single files are moved while that helps, and the best end counts. The
// same package always gets the same answer, which may be an arrow or two above the fewest.
type Graph struct {
	// Rooms are the files' names, sorted; the other slices go by their index.
	Rooms []string
	// Floors are counted from 1, for a room without arrows that lead down.
	Floors []int
	// Arrows and Up are how many arrows leave each room, and how many of them lead up.
	Arrows, Up []int
}

// Graph draws the package's files.
func (p *Package) Graph() Graph {
	index := map[string]int{}
	var g Graph
	for _, file := range p.Files {
		index[file.Name] = len(g.Rooms)
		g.Rooms = append(g.Rooms, file.Name)
	}
	uses := make([][]bool, len(g.Rooms))
	for i := range uses {
		uses[i] = make([]bool, len(g.Rooms))
	}
	for name, object := range p.info.Uses {
		from, known := index[p.fileOf(name)]
		to, declared := index[p.fileOf(object)]
		if known && declared && from != to && p.isDeclaration(object) {
			uses[from][to] = true
		}
	}
	g.furnish(uses)
	return g
}

func (p *Package) fileOf(at interface{ Pos() token.Pos }) string {
	return path.Base(p.fset.Position(at.Pos()).Filename)
}

// isDeclaration tells whether an object is of the package's scope, or a method of the package.
func (p *Package) isDeclaration(object types.Object) bool {
	if object.Pkg() != p.types {
		return false
	}
	if object.Parent() == p.types.Scope() {
		return true
	}
	fn, ok := object.(*types.Func)
	return ok && fn.Signature().Recv() != nil
}

// furnish fills in the floors and counts the arrows.
func (g *Graph) furnish(uses [][]bool) {
	n := len(uses)
	g.Floors, g.Arrows, g.Up = make([]int, n), make([]int, n), make([]int, n)
	placed := make([]bool, n)
	for _, room := range floorOrder(uses) {
		g.Floors[room] = 1
		for other, used := range uses[room] {
			switch {
			case !used:
				continue
			case placed[other]:
				g.Floors[room] = max(g.Floors[room], g.Floors[other]+1)
			default:
				g.Up[room]++
			}
			g.Arrows[room]++
		}
		placed[room] = true
	}
}

// floorOrder lists the rooms from the ground up.
func floorOrder(uses [][]bool) []int {
	var order []int
	for _, component := range components(uses) {
		order = append(order, bestOrder(component, uses)...)
	}
	return order
}

// components lists the strongly connected components, each after all that it uses (Tarjan).
func components(uses [][]bool) [][]int {
	t := tarjan{uses: uses, seen: make([]int, len(uses)), low: make([]int, len(uses)), on: make([]bool, len(uses))}
	for room := range uses {
		if t.seen[room] == 0 {
			t.visit(room)
		}
	}
	return t.found
}

type tarjan struct {
	uses      [][]bool
	seen, low []int // from 1, in the order of visits
	on        []bool
	stack     []int
	visits    int
	found     [][]int
}

func (t *tarjan) visit(room int) {
	t.visits++
	t.seen[room], t.low[room] = t.visits, t.visits
	t.stack, t.on[room] = append(t.stack, room), true
	for other, used := range t.uses[room] {
		switch {
		case !used:
		case t.seen[other] == 0:
			t.visit(other)
			t.low[room] = min(t.low[room], t.low[other])
		case t.on[other]:
			t.low[room] = min(t.low[room], t.seen[other])
		}
	}
	if t.low[room] != t.seen[room] {
		return
	}
	start := slices.Index(t.stack, room)
	component := slices.Sorted(slices.Values(t.stack[start:]))
	for _, member := range component {
		t.on[member] = false
	}
	t.stack, t.found = t.stack[:start], append(t.found, component)
}

const startOrders = 300

// bestOrder arranges a component from the ground up with few arrows that lead up.
func bestOrder(component []int, uses [][]bool) []int {
	random := rand.New(rand.NewPCG(1, 1))
	best := slices.Clone(component)
	fewest := improve(best, uses)
	for range startOrders {
		order := slices.Clone(component)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if up := improve(order, uses); up < fewest {
			best, fewest = order, up
		}
	}
	return best
}

// improve moves single rooms to where fewer arrows lead up, until no move helps, and returns how
// many are left.
func improve(order []int, uses [][]bool) int {
	for moved := true; moved; {
		moved = false
		for from := range order {
			if to, gain := bestMove(order, from, uses); gain > 0 {
				move(order, from, to)
				moved = true
			}
		}
	}
	up := 0
	for i, room := range order {
		for _, above := range order[i+1:] {
			up += count(uses[room][above])
		}
	}
	return up
}

// bestMove is where a room had better stand, and how many arrows fewer would lead up.
func bestMove(order []int, from int, uses [][]bool) (to, gain int) {
	room := order[from]
	to = from
	sum := 0
	for i := from - 1; i >= 0; i-- { // down past others: its arrows to them turn up, theirs to it down
		sum += count(uses[order[i]][room]) - count(uses[room][order[i]])
		if sum > gain {
			to, gain = i, sum
		}
	}
	sum = 0
	for i := from + 1; i < len(order); i++ {
		sum += count(uses[room][order[i]]) - count(uses[order[i]][room])
		if sum > gain {
			to, gain = i, sum
		}
	}
	return to, gain
}

func move(order []int, from, to int) {
	room := order[from]
	rest := slices.Delete(slices.Clone(order), from, from+1)
	copy(order, slices.Insert(rest, to, room))
}

func count(arrow bool) int {
	if arrow {
		return 1
	}
	return 0
}
