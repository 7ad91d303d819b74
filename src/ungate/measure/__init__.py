"""What a running server does: load, telemetry, correctness of the outputs, proof that the opened path ran."""
