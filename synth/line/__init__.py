"""The whole line: instance -> plan, schedule, verified program, files."""
