package measure

import (
	"go/types"
	"strings"
)

// Type is a named type of a package's scope.
type Type struct {
	// Name has the package's folder before it: pkg/upgrade.World.
	Name string
	// Methods can be called on a value of the type: its own and those that it has from embedded
	// types of this module.
	Methods int
	// Fields are the struct's own, an embedded one counting as one.
	Fields int
	// OneWord are its own unexported methods whose name is one word.
	OneWord int
}

// Types lists the named types of the package's scope, by name.
func (p *Package) Types() []Type {
	var all []Type
	for _, name := range p.types.Scope().Names() {
		declared, ok := p.types.Scope().Lookup(name).(*types.TypeName)
		if !ok || declared.IsAlias() {
			continue
		}
		if named, ok := declared.Type().(*types.Named); ok {
			all = append(all, p.typeOf(named))
		}
	}
	return all
}

func (p *Package) typeOf(named *types.Named) Type {
	t := Type{Name: p.Dir + "." + named.Obj().Name(), Methods: p.methods(named)}
	if structure, ok := named.Underlying().(*types.Struct); ok {
		t.Fields = structure.NumFields()
	}
	for method := range named.Methods() {
		if !method.Exported() && Words(method.Name()) == 1 {
			t.OneWord++
		}
	}
	return t
}

// methods counts the method set, without what comes from other modules.
func (p *Package) methods(named *types.Named) int {
	var receiver types.Type = named
	if !types.IsInterface(named) {
		receiver = types.NewPointer(named)
	}
	n := 0
	for selection := range types.NewMethodSet(receiver).Methods() {
		if from := selection.Obj().Pkg(); from != nil && strings.HasPrefix(from.Path(), p.module+"/") {
			n++
		}
	}
	return n
}
