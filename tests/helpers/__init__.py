"""What tests share: no file of tests imports another. conftest.py beside this folder is what makes `helpers` importable."""
