def render_report(r): return ""
