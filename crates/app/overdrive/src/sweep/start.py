# Starts a sweep in the Python package `overdrive`, which must have the version of the command.
import sys

# A folder named `overdrive` in the working directory is not the package.
sys.path[:] = [path for path in sys.path if path]
version, python = sys.argv[1], sys.executable


def refuse(what):
    print(f"overdrive: {python}: {what}", file=sys.stderr)
    sys.exit(2)


install = (
    f"build it by `cargo xtask wheel` and install it by `{python} -m pip install WHEEL`, or name a "
    "Python that has it by --python"
)
try:
    import overdrive

    found = overdrive.__version__
except (ImportError, AttributeError) as error:
    refuse(f"the Python package overdrive is missing ({error}); {install}")
if found != version:
    refuse(f"has version {found} of the package overdrive, but the command has {version}; {install}")
try:
    from overdrive.sweep.__main__ import main
except ImportError as error:
    name = error.name or "the package"
    refuse(f"a sweep requires {name} ({error}); install it by `{python} -m pip install {name}`")
sys.exit(main(sys.argv[2:]))
