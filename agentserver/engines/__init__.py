"""Where conversations are kept: one module per engine, and the suite that each of them passes."""
