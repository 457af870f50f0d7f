from autoprox.cli import main

main()
