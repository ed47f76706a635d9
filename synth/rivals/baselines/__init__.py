"""What libraries would do, as schedules."""
