{# A private model is one statement of dfp.sql: the plugin runs it and makes the table. #}
{% materialization private, adapter="duckdb" %}
  {%- set target = this.incorporate(type="table") -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set terms = config.get("meta", {}).get("dfprivacy", {}) -%}

  {% call statement("before") %}select 1{% endcall %} {#- begins a transaction for the hooks -#}
  {{ run_hooks(pre_hooks) }}
  {% if existing is not none and existing.type != "table" %}
    {% do adapter.drop_relation(existing) %}
  {% endif %}
  {% do adapter.commit() %}

  {% do adapter.store_relation("dfprivacy", target, [], "", "", {"sql": sql, "terms": terms}) %}

  {% call statement("main") %}select 1{% endcall %}
  {{ run_hooks(post_hooks) }}
  {% do adapter.commit() %}
  {{ return({"relations": [target]}) }}
{% endmaterialization %}

{# `dbt show` of a private model shows the table that the last build has made: nothing is charged. #}
{% macro get_show_sql(compiled_code, sql_header, limit) -%}
  {%- if model.config.materialized == "private" -%}
    {%- if load_relation(this) is none -%}
      {{ exceptions.raise_compiler_error("build " ~ this ~ " first: a preview releases nothing") }}
    {%- endif -%}
    select * from {{ this }}{% if limit is not none %} limit {{ limit }}{% endif %}
  {%- else -%}
    {{ dbt.get_show_sql(compiled_code, sql_header, limit) }}
  {%- endif -%}
{%- endmacro %}
