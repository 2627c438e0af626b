"""How numba compiles kernels here, the functions that are compiled into them, and how it keeps them. All that is named of numba's
private parts stands in this file; where a version of numba lacks one of them, `is_tuned` says so, and numba goes its own way.

Numba optimises every function that a kernel calls as if it were run by itself and makes machine code of it. Nobody ever runs
that: all is optimised again within the kernel. Here such a function ends as intermediate code that kernels link in, once each.

What does nothing for kernels is left out: they count no references, so that the end of a variable means nothing (half of the
statements that numba would translate say so), and most of them have no function within and nothing that catches errors.
"""

from collections.abc import Callable, Iterable
from inspect import CO_GENERATOR
from types import CodeType
from typing import Any

import numpy as np
from llvmlite import binding
from numba import NumbaError, njit
from numba.core import cgutils, ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, LoweringPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.serialize import dumps
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, IRProcessing, MakeFunctionToJitFunction, WithLifting
from numba.extending import register_jitable

from .cache import Shelf
from .compiling import COMPILING, warn_untuned
from .instructions import larger, smaller

ENVIRONMENT = "_ZN08NumbaEnv"  # how numba begins the name of the environment of a function: constants that it prints or raises
OF_ARRAYS = {NopythonRewrites}  # they fuse expressions of arrays: kernels have none
OF_LIFETIMES = {IRLegalization}  # it says where variables end
OF_CLOSURES = {InlineClosureLikes, MakeFunctionToJitFunction, WithLifting}
INSTRUCTIONS = {max: larger, min: smaller}


class LinkedLibrary(JITCodeLibrary):
    """Intermediate code to link into others. That of the functions it calls is apart: whoever links it in takes those too."""

    _linking_libraries: Any
    whole: Any = None

    def add_ir_module(self, ir_module: Any) -> None:
        module = binding.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        module.name = ir_module.name
        self.add_llvm_module(module)
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"  # one of many that are the same

    def finalize(self) -> None:
        """Kernels optimise it, with all else that they have linked in."""
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """With all that it calls: numba asks for it where a function that is compiled elsewhere calls this one."""
        if self.whole is None:
            whole = self._final_module.clone()
            for code in codes_to_link(self._linking_libraries):
                whole.link_in(code._get_module_for_linking(), preserve=True)
            self.whole = whole
        return self.whole

    def get_pointer_to_function(self, name: str) -> int:
        """None has an address."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """Numba asks this for `set_env` only."""
        return self

    def set_env(self, env_name: str, env: Any) -> None:
        """The kernel does that: see `SetEnvironments`."""


class OwnCode:
    """The code of a linked library without that of the functions it calls, as numba asks for it."""

    def __init__(self, library: LinkedLibrary) -> None:
        self._module = library._final_module
        self._reload_init: set[Any] = getattr(library, "_reload_init", set())  # numba 0.61 has none, and does not ask for it

    def _get_module_for_linking(self) -> Any:
        return self._module


def codes_to_link(libraries: Iterable[Any]) -> list[Any]:
    """All that is to be linked in for these, once each. A caller stands before what it calls: the linker takes only functions
    that something in the module calls already."""
    found: dict[Any, Any] = {}

    def walk(library: Any) -> None:
        if library not in found:
            own = isinstance(library, LinkedLibrary)
            for called in library._linking_libraries if own else ():
                walk(called)
            found[library] = OwnCode(library) if own else library

    for library in libraries:
        walk(library)
    return list(reversed(found.values()))


class KernelLibrary(JITCodeLibrary):
    _linking_libraries: Any

    def finalize(self) -> None:
        self._linking_libraries = codes_to_link(self._linking_libraries)
        super().finalize()


def has_two_arguments(call: ir.Expr) -> bool:
    return len(call.args) == 2 and not call.kws and call.vararg is None


@register_pass(mutates_CFG=False, analysis_only=False)
class TakeInstructions(FunctionPass):
    """`max` and `min` of two numbers: instructions in their place. Numba makes a function of each, with machine code of its own,
    for every pair of types."""

    _name = "maxmargin_take_instructions"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        names: dict[str, Any] = {}
        for block in state.func_ir.blocks.values():
            for one in block.find_insts(ir.Assign):
                value = one.value
                if isinstance(value, ir.Global) and (value.value is max or value.value is min):
                    names[one.target.name] = value
                if isinstance(value, ir.Expr) and value.op == "call" and value.func.name in names and has_two_arguments(value):
                    named = names[value.func.name]
                    named.value = INSTRUCTIONS.get(named.value, named.value)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class SetEnvironments(LoweringPass):
    """Give the functions that a kernel has linked in their environments."""

    _name = "maxmargin_set_environments"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for variable in state["library"]._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None:
                state["library"].codegen.set_env(variable.name, environment)
        return False


def needless(code: CodeType) -> set[Any]:
    """Numba's passes that do nothing for a function with this code."""
    if code.co_flags & CO_GENERATOR:
        return OF_ARRAYS
    nested = any(isinstance(constant, CodeType) for constant in code.co_consts)
    return OF_ARRAYS | OF_LIFETIMES if nested or code.co_exceptiontable else OF_ARRAYS | OF_LIFETIMES | OF_CLOSURES


def passes_of(state: Any) -> Any:
    """Numba's own, but those that do nothing here."""
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    left_out = needless(state.func_id.func.__code__)
    passes.passes = [(one, text) for one, text in passes.passes if one not in left_out]
    passes.add_pass_after(TakeInstructions, IRProcessing)
    return passes


class Refreshed:
    """A target that knows all implementations there are: a kernel looks for new ones, and what is compiled within it need not."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def refresh(self) -> None:
        """As new as it was when the kernel began."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


class KernelCompiler(Compiler):
    """Kernels allocate nothing, so no references are counted: a visit to one example would otherwise count two dozen, at 5 ns
    each. No C function is made of them either."""

    flags: dict[str, bool] = {"nrt": False, "no_cfunc_wrapper": True}

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returned: Any, flags: Any, variables: Any) -> None:
        if is_tuned():
            for name, value in self.flags.items():
                setattr(flags, name, value)
            target = self.target_of(target)
        super().__init__(typing, target, library, args, returned, flags, variables)

    def target_of(self, target: Any) -> Any:
        return target

    def define_pipelines(self) -> list[Any]:
        return [self.pipeline()] if is_tuned() else super().define_pipelines()

    def pipeline(self) -> Any:
        self.state["library"] = KernelLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state["library"].enable_object_caching()
        passes = passes_of(self.state)
        passes.add_pass_after(SetEnvironments, NativeLowering)
        passes.finalize()
        return passes


class LinkedCompiler(KernelCompiler):
    """Ends in a `LinkedLibrary`."""

    def target_of(self, target: Any) -> Any:
        return Refreshed(target)

    def pipeline(self) -> Any:
        self.state["library"] = LinkedLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        passes = passes_of(self.state)
        passes.finalize()
        return passes


class InlinedCompiler(LinkedCompiler):
    """The same, of functions that become a part of whatever calls them."""

    flags = LinkedCompiler.flags | {"forceinline": True}


class KernelCache:
    """What numba asks when it needs a kernel, and gives what it has compiled. Numba's own cache gets ready to compile before it
    loads one, which takes 35 MB and most of a second."""

    cache_path = None  # the folder is found when it is first needed

    def __init__(self, function: Callable) -> None:
        self.shelf, self.name, self.asked = Shelf(function, dumps), function.__name__, False

    def key(self, kinds: Any, target: Any) -> Any:
        return kinds, target.codegen().magic_tuple()

    def load_overload(self, kinds: Any, target: Any) -> Any:
        self.asked = True
        found = self.shelf.load(self.key(kinds, target)) if is_tuned() else None
        if found is None:
            COMPILING.tell(self.name)
            return None
        return CompileResult._rebuild(target, *found)

    def save_overload(self, kinds: Any, result: Any) -> None:
        if is_tuned() and not result.library.has_dynamic_globals:
            self.shelf.save(self.key(kinds, result.target_context), result._reduce())


# What code that relies on names or habits of another version of numba may raise.
SURPRISES = AssertionError, AttributeError, ImportError, LookupError, NumbaError, RuntimeError, TypeError, ValueError
TUNED: list[bool] = []  # what `is_tuned` has found


def is_tuned() -> bool:
    """Whether all of this works with this version of numba: a small kernel is compiled, or loaded, before any other."""
    if not TUNED:
        TUNED.append(True)  # meanwhile
        try:
            try_out()
        except SURPRISES as error:
            TUNED[0] = False
            warn_untuned(f"{type(error).__name__}: {error}")
    return TUNED[0]


def try_out() -> None:
    @register_jitable(pipeline_class=InlinedCompiler)
    def checked(x):
        if x[0] < 0.0:
            raise ValueError("negative")
        return x[0]

    @register_jitable(pipeline_class=LinkedCompiler)
    def linked(x):
        return max(checked(x), 0.5) + checked(x)

    def first_kernel(x):
        return linked(x) + checked(x)

    compiled: Any = njit(pipeline_class=KernelCompiler)(first_kernel)
    cache = compiled._cache = KernelCache(first_kernel)
    if compiled(np.ones(1)) != 3.0 or not cache.asked:
        raise AssertionError("a first kernel is wrong, or not looked for where it is kept")
