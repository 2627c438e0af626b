"""How numba compiles kernels here, and the functions that are compiled into them.

Numba optimises every function that a kernel calls as if it were run by itself and makes machine code of it. Nobody ever runs
that: all is optimised again within the kernel. Here such a function ends as intermediate code that kernels link in.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering, NopythonRewrites

ENVIRONMENT = "_ZN08NumbaEnv"  # how numba begins the name of the environment of a function: constants that it prints or raises


class LinkedLibrary(JITCodeLibrary):
    """Intermediate code to link into others."""

    def _optimize_final_module(self) -> None:
        """Kernels do that, for all that they have linked in."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

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


@register_pass(mutates_CFG=True, analysis_only=False)
class SetEnvironments(LoweringPass):
    """Give the functions that a kernel has linked in their environments."""

    _name = "maxmargin_set_environments"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return False


def passes_of(state: Any) -> Any:
    """Numba's own, but those that fuse expressions of arrays: kernels have none."""
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    passes.passes = [(one, text) for one, text in passes.passes if one is not NopythonRewrites]
    return passes


class KernelCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = passes_of(self.state)
        passes.add_pass_after(SetEnvironments, NativeLowering)
        passes.finalize()
        return [passes]


class LinkedCompiler(CompilerBase):
    """Ends in a `LinkedLibrary`."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = LinkedLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return [passes_of(self.state)]
