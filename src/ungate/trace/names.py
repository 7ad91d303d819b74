"""What a dotted name means at a place in the code: followed through imports, re-exports, aliases,
instances, wrappers and the results of functions, and left unknown where the code does not say."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from ungate.model import Unread
from ungate.trace.corpus import Corpus
from ungate.trace.module import Module, Scope, Use, dotted, read

__all__ = ["Names", "Thing"]

_DEPTH = 24  # longer alias chains than this do not occur; it bounds recursion through cyclic imports


@dataclass(frozen=True, slots=True)
class Thing:
    """What a name stands for.

    ``kind`` is module, function, class, instance (of the class), result (what the function returns),
    value (a module-level or class-level name that is none of these) or outside (a name of a package
    that is not traced). ``trail`` is what was accessed on a result that could not be followed further:
    ``get_module().run`` is a result of ``get_module`` with trail ("run",). native is a compiled module, named
    by the function that builds it, with what is called on it as trail.
    """

    kind: str
    module: str
    name: str = ""
    trail: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.module}:{self.name}" if self.name else self.module


class Names:
    """Resolves names over a corpus; parses a file when a name leads there."""

    def __init__(self, corpus: Corpus, builds: Callable[[Corpus, Scope], bool] = lambda corpus, scope: False) -> None:
        self.corpus = corpus
        self._builds = builds
        self._known: dict[tuple[int, str], Thing | None] = {}
        self._asked: set[tuple[int, str]] = set()
        self._building: dict[tuple[str, str], bool] = {}
        self._parsed: dict[str, Module | None] = {}
        self._meant: dict[tuple[int, str], Thing | None] = {}
        self._returned: dict[int, list[ast.expr]] = {}

    def module(self, name: str) -> Module | None:
        """The parsed module, None where it is not among the packages or does not parse (noted in corpus.unread)."""
        if name not in self._parsed:
            file = self.corpus.modules.get(name)
            self._parsed[name] = None
            if file is not None:
                try:
                    self._parsed[name] = read(name, file, self.corpus.text(file))
                except (SyntaxError, ValueError, RecursionError) as error:
                    reason = f"Python cannot parse it: {getattr(error, 'msg', None) or error}"
                    self.corpus.unread.append(Unread(file, reason))
        return self._parsed[name]

    def file(self, file: str) -> Module | None:
        """The parsed module of a file."""
        name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        return self.module(name)

    def building(self, thing: Thing) -> bool:
        """Whether a function compiles a module from sources that it names."""
        key = (thing.module, thing.name)
        if key not in self._building:
            scope = self.scope(thing)
            self._building[key] = scope is not None and self._builds(self.corpus, scope)
        return self._building[key]

    def scope(self, thing: Thing) -> Scope | None:
        """The scope that defines a function or class (also of an instance or a result)."""
        module = self.module(thing.module)
        return module.scopes.get(thing.name) if module else None

    def use(self, use: Use, scope: Scope) -> Thing | None:
        """What a reference stands for."""
        key = (id(scope), use.text)
        if key not in self._meant:
            self._meant[key] = self.text(use.text, scope)
        return self._meant[key]

    def text(self, text: str, scope: Scope, depth: int = 0) -> Thing | None:
        """What a dotted text stands for when read in a scope."""
        if "?" in text or depth > _DEPTH:
            return None
        first, *rest = text.split(".")
        thing = self._suffix(self._name(first.rstrip("()[]"), scope, depth + 1), first, depth)
        for part in rest:
            if thing is None:
                return None
            thing = self._suffix(self.attribute(thing, part.rstrip("()[]"), depth + 1), part, depth)
        return thing

    def _suffix(self, thing: Thing | None, part: str, depth: int) -> Thing | None:
        marks = part[len(part.rstrip("()[]")) :]
        while marks and thing is not None:
            thing = self._called(thing, depth) if marks.startswith("()") else None
            marks = marks[2:]
        return thing

    def made(self, thing: Thing | None) -> Thing | None:
        """The object that a name stands for: itself where it is one, or what a function returns."""
        if thing is None or thing.kind == "instance":
            return thing
        scope = self.scope(thing) if thing.kind == "result" and not thing.trail else None
        values = (self._value(value, scope, "", 1) for value in _returns(scope)) if scope is not None else ()
        return next((value for value in values if value is not None and value.kind == "instance"), None)

    def _called(self, thing: Thing, depth: int) -> Thing | None:
        match thing.kind:
            case "function":
                return Thing("native" if self.building(thing) else "result", thing.module, thing.name)
            case "class":
                return Thing("instance", thing.module, thing.name)
            case "result" | "native" if thing.trail or thing.kind == "native":
                return thing
            case "instance":
                call = self.attribute(thing, "__call__", depth + 1)
                return Thing("result", call.module, call.name) if call else None
            case _:
                return None

    def _name(self, name: str, scope: Scope, depth: int) -> Thing | None:
        if name in ("self", "cls"):
            owner = scope.owner("class")
            return Thing("instance", owner.module.name, owner.name) if owner else None
        if name == "super":
            owner = scope.owner("class")
            return Thing("function", owner.module.name, f"{owner.name}.super") if owner else None
        at: Scope | None = scope
        while at is not None:
            if at.kind != "class" or at is scope:
                thing = self._own(at, name, depth)
                if thing is not None:
                    return thing
            at = at.parent
        return None

    def _own(self, scope: Scope, name: str, depth: int) -> Thing | None:
        """What a name stands for in one scope; a name that is defined by itself (``x = f(x)``) is asked once."""
        key = (id(scope), name)
        if key in self._known:
            return self._known[key]
        if depth > _DEPTH or key in self._asked:
            return None
        self._asked.add(key)
        thing = self._define(scope, name, depth)
        self._asked.discard(key)
        if thing is not None or not self._asked:
            self._known[key] = thing
        return thing

    def _define(self, scope: Scope, name: str, depth: int) -> Thing | None:
        if name in scope.children:
            child = scope.children[name]
            return Thing("class" if child.kind == "class" else "function", scope.module.name, child.name)
        if name in scope.imports:
            return self._imported(*scope.imports[name], depth + 1)
        if scope.kind == "function" and (thing := self._parameter(scope, name, depth + 1)) is not None:
            return thing
        for value in reversed(scope.values.get(name, ())):
            thing = self._value(value, scope, name, depth + 1)
            if thing is not None:
                return thing
        if scope.kind != "function" and name in scope.values:
            return Thing("value", scope.module.name, f"{scope.name}.{name}" if scope.name else name)
        for star in scope.stars:
            thing = self._imported(star, name, depth + 1)
            if thing is not None:
                return thing
        return None

    def _parameter(self, scope: Scope, name: str, depth: int) -> Thing | None:
        node = scope.node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.arg == name and argument.annotation is not None:
                annotation = argument.annotation
                text = annotation.value if isinstance(annotation, ast.Constant) else dotted(annotation)
                known = self.text(str(text), scope.parent or scope, depth) if scope.parent else None
                return Thing("instance", known.module, known.name) if known and known.kind == "class" else None
        return None

    def _value(self, value: ast.expr, scope: Scope, name: str, depth: int) -> Thing | None:
        """An alias, an instance or a wrapped function; None where the value is none of these."""
        if depth > _DEPTH:
            return None
        match value:
            case ast.Name() | ast.Attribute():
                text = dotted(value)
                return None if text == name else self.text(text, scope, depth + 1)
            case ast.Call(
                func=func, args=[ast.Constant(value=str(origin)), ast.Constant(value=str(attribute)), *_]
            ) if "import" in dotted(func) or "lazy" in dotted(func) or origin in self.corpus.modules:
                return self._imported(origin, attribute, depth + 1)  # a wrapper that imports when it is first called
            case ast.Call(func=func, args=[ast.Constant(value=str(origin))]) if dotted(func).endswith("import_module"):
                return self._imported(origin, "", depth + 1)
            case ast.Call(func=func, args=arguments):
                thing = self.text(dotted(value), scope, depth + 1)
                if thing is not None and thing.kind == "instance":
                    return thing
                wrapper = dotted(func).rpartition(".")[2].rstrip("()")
                if wrapper in _WRAPPERS:
                    inner = (self._value(argument, scope, name, depth + 1) for argument in arguments)
                    return next((found for found in inner if found is not None), None)
                return thing
            case ast.IfExp(body=body, orelse=orelse):
                return self._value(body, scope, name, depth + 1) or self._value(orelse, scope, name, depth + 1)
            case _:
                return None

    def _imported(self, origin: str, name: str, depth: int) -> Thing | None:
        if depth > _DEPTH:
            return None
        if not name:
            return Thing("module", origin)
        module = self.module(origin)
        if module is not None:
            thing = self._own(module.top, name, depth + 1)
            if thing is not None:
                return thing
        if f"{origin}.{name}" in self.corpus.modules:
            return Thing("module", f"{origin}.{name}")
        if origin not in self.corpus.modules:  # outside the packages: known by name only
            return Thing("outside", origin, name)
        return None

    def attribute(self, thing: Thing, name: str, depth: int = 0) -> Thing | None:
        """What ``name`` is on a thing."""
        if depth > _DEPTH:
            return None
        match thing.kind:
            case "module":
                return self._imported(thing.module, name, depth + 1)
            case "outside":
                return Thing("outside", thing.module, f"{thing.name}.{name}")
            case "class" | "instance":
                return self._member(thing, name, depth + 1)
            case "result":
                return self._of_result(thing, name, depth + 1)
            case "native":
                loads = not thing.trail and name in _LOADS
                return thing if loads else Thing("native", thing.module, thing.name, (*thing.trail, name))
            case _:
                return None

    def _member(self, thing: Thing, name: str, depth: int) -> Thing | None:
        scope = self.scope(thing)
        if scope is None or depth > _DEPTH:
            return None
        if name in scope.children or name in scope.values or name in scope.imports:
            own = self._own(scope, name, depth + 1)
            if own is not None and own.kind != "value":
                return own
        for value in reversed(scope.values.get(f"self.{name}", ())):
            init = scope.children.get("__init__", scope)
            found = self._value(value, init, f"self.{name}", depth + 1)
            if found is not None:
                return found
        for base in _bases(scope):
            known = self.text(base, scope.parent or scope, depth + 1)
            if known is not None and known.kind == "class" and known.name != scope.name:
                found = self._member(known, name, depth + 1)
                if found is not None:
                    return found
        return None

    def _of_result(self, thing: Thing, name: str, depth: int) -> Thing | None:
        """What the result of a function has under a name: an inner function it hands out, or what it returns."""
        scope = self.scope(thing)
        if scope is None or thing.trail:
            return Thing("result", thing.module, thing.name, (*thing.trail, name))
        if id(scope) not in self._returned:
            self._returned[id(scope)] = _returns(scope)
        for returned in self._returned[id(scope)]:
            if isinstance(returned, ast.Call):
                for keyword in returned.keywords:
                    if keyword.arg == name:
                        return self._value(keyword.value, scope, "", depth + 1)
            known = self._value(returned, scope, "", depth + 1)
            if known is not None and known.kind in ("instance", "module", "class", "result", "native"):
                found = self.attribute(known, name, depth + 1)
                if found is not None:
                    return found
        if name in scope.children:
            return Thing("function", thing.module, scope.children[name].name)
        return Thing("result", thing.module, thing.name, (name,))


_LOADS = frozenset({"build_and_load", "load", "build", "get_module", "module", "load_library"})
_WRAPPERS = frozenset(
    {"partial", "cache", "lru_cache", "lru_cache()", "compile", "deprecated", "wraps", "staticmethod"}
)


def _bases(scope: Scope) -> list[str]:
    return [dotted(base) for base in scope.node.bases] if isinstance(scope.node, ast.ClassDef) else []


def _returns(scope: Scope) -> list[ast.expr]:
    """The expressions that a function itself returns (not those of inner functions)."""
    found: list[ast.expr] = []
    pending: list[ast.AST] = list(ast.iter_child_nodes(scope.node))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            continue
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
            continue
        pending.extend(ast.iter_child_nodes(node))
    return found
